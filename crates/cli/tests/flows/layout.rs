//! Tests flows in the folders that the project's layout configures.

use std::fs;

use crate::project::FlowProject;

#[test]
fn layout_sets_change_and_session_folders() {
    for (flow, agent, folder) in
        [("sdd", "sdd.sh", "agentd/changes"), ("staged", "staged.sh", "work/sessions")]
    {
        let (usual, project) = (FlowProject::new(agent), FlowProject::new(agent));
        let config = "[layout]\nchanges = \"agentd/changes\"\nsessions = \"work/sessions\"\n";
        fs::create_dir_all(project.path().join(".callsheet")).unwrap();
        fs::write(project.path().join(".callsheet/config.toml"), config).unwrap();
        project.git(&["add", "-A"]);
        project.git(&["commit", "-q", "-m", "layout"]);
        let ended = [&usual, &project].map(|project| project.run(project.start_args(flow, &[])).code);
        assert_eq!(ended[0], ended[1], "{flow}");
        assert!(project.path().join(folder).is_dir(), "{flow}");
        let shown = project.read_status()["folder"].as_str().unwrap().to_owned();
        assert!(shown.starts_with(folder) && project.path().join(&shown).is_dir(), "{flow}: {shown}");
        let shipped = if flow == "sdd" { "changes" } else { "sessions" };
        assert!(!project.path().join(".callsheet").join(shipped).exists(), "{flow}");
        assert!(usual.path().join(".callsheet").join(shipped).is_dir(), "{flow}");
    }
}
