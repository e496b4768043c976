//! Tests flows in the folders that the project's layout configures.

use std::fs;

use crate::world::World;

#[test]
fn layout_sets_change_and_session_folders() {
    for (flow, agent, folder) in
        [("sdd", "sdd.sh", "agentd/changes"), ("staged", "staged.sh", "work/sessions")]
    {
        let (usual, world) = (World::new(agent), World::new(agent));
        let config = "[layout]\nchanges = \"agentd/changes\"\nsessions = \"work/sessions\"\n";
        fs::create_dir_all(world.project().join(".callsheet")).unwrap();
        fs::write(world.project().join(".callsheet/config.toml"), config).unwrap();
        world.git(&["add", "-A"]);
        world.git(&["commit", "-q", "-m", "layout"]);
        let ended = [&usual, &world].map(|world| world.run(&world.start_args(flow, &[])).code);
        assert_eq!(ended[0], ended[1], "{flow}");
        assert!(world.project().join(folder).is_dir(), "{flow}");
        let shown = world.read_status()["folder"].as_str().unwrap().to_owned();
        assert!(shown.starts_with(folder) && world.project().join(&shown).is_dir(), "{flow}: {shown}");
        let shipped = if flow == "sdd" { "changes" } else { "sessions" };
        assert!(!world.project().join(".callsheet").join(shipped).exists(), "{flow}");
        assert!(usual.project().join(".callsheet").join(shipped).is_dir(), "{flow}");
    }
}
