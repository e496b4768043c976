//! Packing a repository into one text: whole processes, each of which writes its text to a file.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::corpus::Corpus;
use crate::peers::{Peers, version};
use crate::process::{Cost, Program, race};
use crate::report::{Report, Row, Taken};

/// How many rounds slow programs take part in.
const SLOW_ROUNDS: usize = 2;

pub(crate) fn report(report: &mut Report, peers: &Peers, work: &Path, files: usize, rounds: usize) {
    let tree = work.join("tree");
    let myself = std::env::current_exe().expect("this program");
    // By a process of its own: what this one has held counts as its children's memory.
    let maker = Program::new("tree", &myself, work).arg("tree").arg(&tree).arg(files.to_string());
    let bytes: usize = maker.output().trim().parse().expect("how many bytes there are");
    // The shipped recipe shows the upper levels of a project: here everybody shows all of it.
    let recipe = include_str!("../../crates/core/builtin/recipes/unified.toml");
    let whole = recipe.replace("depth = 3\nlimit = 200\n", "depth = 100\nlimit = 100000\n");
    assert_ne!(whole, recipe, "the recipe limits the tree");
    fs::create_dir_all(tree.join(".callsheet/recipes")).expect("a folder");
    fs::write(tree.join(".callsheet/recipes/unified.toml"), whole).expect("a recipe");

    let outs = work.join("out");
    fs::create_dir_all(&outs).expect("a folder");
    let out = |name: &str| outs.join(name);
    let limit = Program::new("parallel `ignore` walk that reads every byte", &myself, &tree);
    // The others do not look for secrets (repomix does); so that like is held against like, neither do we.
    let ours = |name: &str, secrets: &str| {
        let program = Program::new(name, &peers.callsheet, &tree);
        let ask = ["compose", "-q", "-p", "plan", "-f", ".", "--secrets", secrets, "Read all of this"];
        program.args(ask).out(&out(name.split(' ').next().unwrap_or(name)))
    };
    let mut programs = vec![limit.args(["walk", "."]), ours("callsheet", "allow")];
    let rivals = [
        ("yek", &peers.yek, 2.5),
        ("files-to-prompt", &peers.files_to_prompt, 8.0),
        ("code2prompt", &peers.code2prompt, 50.0),
        ("repomix", &peers.repomix, 50.0),
    ];
    for (name, path, _) in rivals {
        let Some(path) = path else { continue };
        let program = Program::new(&format!("{name} {}", version(path, work)), path, &tree);
        programs.push(match name {
            "yek" => program.args(["--tree-header", "--max-size", "1GB", "."]).out(&out(name)),
            "files-to-prompt" => program.arg(".").out(&out(name)),
            "code2prompt" => program.args([".", "-O"]).arg(out(name)).rounds(SLOW_ROUNDS),
            _ => program.args([".", "--quiet", "-o"]).arg(out(name)).rounds(SLOW_ROUNDS),
        });
    }
    programs.push(ours("callsheet-gated (looks for secrets)", "warn"));
    let costs = race(&programs, rounds);
    let packed = fs::read_to_string(out("callsheet")).expect("what callsheet has written");
    assert_eq!(packed.matches("<file path=\"").count(), files, "callsheet has packed every file");

    let megabytes = bytes / 1_000_000;
    let mut row = Row::new(&format!("packing {files} files, {megabytes} MB, with the directory tree"));
    let mut measured = programs.iter().zip(&costs).skip(2);
    for (name, path, goal) in rivals {
        row = match path.as_ref().and_then(|_| measured.next()) {
            None => row.faster(name, None, goal),
            Some((program, cost)) => {
                row.faster(&program.name, Some(cost.nanoseconds / costs[1].nanoseconds), goal)
            }
        };
    }
    row = row.at_most(&programs[0].name, costs[1].nanoseconds / costs[0].nanoseconds, 2.5);
    row = row.at_most("memory: the size of the output", costs[1].peak / packed.len() as f64, 3.0);
    let taken = |(program, cost): (&Program, &Cost)| {
        let name = program.name.clone();
        let written = name.split(' ').next().and_then(|name| fs::metadata(out(name)).ok());
        let written = written.map_or(String::new(), |it| format!(", writes {} MB", it.len() / 1_000_000));
        let remark = format!("{:.0} MB of memory{written}", cost.peak / 1e6);
        Taken { name, nanoseconds: cost.nanoseconds, remark }
    };
    report.add(row.contenders(programs.iter().zip(&costs).map(taken)));
}

/// A process of its own that makes the repository, and says how many bytes it has.
pub(crate) fn tree(dir: &Path, files: &str) {
    println!("{}", Corpus::load().tree(dir, files.parse().expect("a number")));
}

/// The limit: finds the same files and reads them, and does nothing with them.
pub(crate) fn walk(dir: &OsStr) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let bytes = AtomicU64::new(0);
    ignore::WalkBuilder::new(dir).threads(threads).build_parallel().run(|| {
        let mut buffer = vec![0; 256 * 1024];
        let bytes = &bytes;
        Box::new(move |entry| {
            if let Ok(entry) = entry
                && entry.file_type().is_some_and(|kind| kind.is_file())
            {
                bytes.fetch_add(read(entry.path(), &mut buffer), Ordering::Relaxed);
            }
            ignore::WalkState::Continue
        })
    });
    println!("{}", bytes.into_inner());
}

fn read(path: &Path, buffer: &mut [u8]) -> u64 {
    use std::io::Read as _;
    let mut file = fs::File::open(path).expect("a file");
    let mut all = 0;
    loop {
        match file.read(buffer).expect("bytes") {
            0 => return all,
            bytes => all += bytes as u64,
        }
    }
}
