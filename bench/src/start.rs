//! Starting: what a command costs before it has done anything.

use std::path::Path;

use crate::peers::Peers;
use crate::process::{Program, race};
use crate::report::{Report, Row, Taken};

pub(crate) fn report(report: &mut Report, peers: &Peers, empty: &Path, rounds: usize) {
    let ours = |name: &str| Program::new(name, &peers.callsheet, empty);
    let mut programs = vec![
        Program::new("/bin/true", "/bin/true", empty),
        ours("callsheet --version").arg("--version"),
        ours("callsheet compose -p plan x").args(["compose", "-p", "plan", "x"]),
        ours("callsheet explain -p plan x").args(["explain", "-p", "plan", "x"]),
    ];
    programs.extend(
        peers
            .code2prompt
            .as_ref()
            .map(|it| Program::new("code2prompt --version", it, empty).arg("--version")),
    );
    let times: Vec<f64> = race(&programs, rounds).iter().map(|cost| cost.nanoseconds).collect();
    let peer = times.get(4);
    for (at, goal) in [(1, 3.0), (2, 6.0)] {
        let row = Row::new(&format!("`{}`, in an empty directory", programs[at].name));
        let row = row.faster("`code2prompt --version`", peer.map(|peer| peer / times[at]), 1.0);
        let everybody = [0, at, 4].into_iter().filter_map(|at| Some((programs.get(at)?, times.get(at)?)));
        let everybody = everybody.map(|(program, time)| taken(program, *time));
        report.add(row.at_most("`/bin/true`", times[at] / times[0], goal).contenders(everybody));
    }
    let row = Row::new("`callsheet explain -p plan x`, in an empty directory");
    let contenders = [2, 3].map(|at| taken(&programs[at], times[at]));
    report.add(row.at_most("`callsheet compose`", times[3] / times[2], 2.0).contenders(contenders));
}

fn taken(program: &Program, nanoseconds: f64) -> Taken {
    Taken { name: format!("`{}`", program.name), nanoseconds, remark: String::new() }
}
