//! Tests that the lanes of a phase get the same shared part.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::project::FlowProject;

/// An agent that keeps both parts and passes them to the scripted one.
fn add_parted_agent(project: &FlowProject, kept: &Path) {
    let program = project.agent().with_file_name("parted");
    let script = format!(
        "#!/bin/sh\ncd_kept='{kept}'\nmkdir -p \"$cd_kept\"\n: > \"$cd_kept/$CALLSHEET_RUN.shared\"\n\
         if [ \"$1\" = --shared ]; then cp \"$2\" \"$cd_kept/$CALLSHEET_RUN.shared\"; fi\n\
         cat > \"$cd_kept/$CALLSHEET_RUN.own\"\n\
         cat \"$cd_kept/$CALLSHEET_RUN.shared\" \"$cd_kept/$CALLSHEET_RUN.own\" | '{agent}'\n",
        kept = kept.display(),
        agent = project.agent().display(),
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let agents = project.beside("home/.config/callsheet/agents");
    fs::create_dir_all(&agents).unwrap();
    let file = format!(
        "name = \"Parted\"\n[start]\nprogram = \"{}\"\nargs = [{{ words = [\"--shared\"], hole = \"shared_file\" }}]\n\
         [prompt]\nby = [\"stdin\"]\n",
        program.display()
    );
    fs::write(agents.join("parted.toml"), file).unwrap();
}

#[test]
fn lanes_share_first_part() {
    let project = FlowProject::new("staged.sh");
    let kept = project.beside("kept");
    add_parted_agent(&project, &kept);
    let start = ["--json", "-q", "flow", "start", "staged", "Add a login to the site", "--agent", "parted"];
    let flow = [&start[..], &["--split", "--jobs", "3"]].concat();
    assert_eq!(project.run(flow).code, Some(1));
    assert_eq!(project.read_status()["phase"], "completing");
    let mut lanes: Vec<(String, String)> = Vec::new();
    for event in project.read_events().iter().filter(|event| event["event"] == "flow.lane_ended") {
        let run = event["data"]["detail"]["run"].as_str().unwrap();
        let [shared, own] =
            ["shared", "own"].map(|part| fs::read_to_string(kept.join(format!("{run}.{part}"))).unwrap());
        assert_eq!(shared.clone() + &own, project.read_prompt(run));
        let parts = project.run_json(&["--json", "show", run])["launch"]["parts"].clone();
        let ends: Vec<u64> =
            parts.as_array().unwrap().iter().filter_map(|part| part["end"].as_u64()).collect();
        if shared.is_empty() {
            assert_eq!(ends, [0_u64; 0]);
        } else {
            assert_eq!(ends, [shared.len() as u64, (shared.len() + own.len()) as u64]);
        }
        if event["data"]["phase"] == "implementing" {
            lanes.push((shared, own));
        }
    }
    let [first, second, third] = &lanes[..] else { panic!("{} lanes", lanes.len()) };
    assert_eq!([&second.0, &third.0], [&first.0; 2]);
    assert!(first.0.starts_with("# Coder\n") && first.0.ends_with("\n\n"), "{}", first.0);
    assert!([first, second, third].iter().all(|(_, own)| own.contains("## Discipline")), "{}", first.1);
    project.run(["verify", "--all"]).expect_code(0);
}

#[test]
fn flow_without_able_agent_is_refused() {
    let project = FlowProject::new("staged.sh");
    let args = project.start_args("staged", &["--split"]);
    let output = project.run(args);
    assert_eq!(output.error(), (Some(2), "deliver/refused".to_owned()), "{output:?}");
    let hint = output.error_json()["hints"][0].clone();
    assert_eq!(hint, "remove `--split`, or use one that can: of the shipped agents, claude and codex");
    assert!(!project.has_flow());
}
