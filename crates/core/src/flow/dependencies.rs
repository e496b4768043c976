//! Finds the lanes that must not run at the same time because they own the same file. If the comparison takes
//! too long, they count as overlapping.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::Lane;
use crate::library::plan::OwnedGlob;
use crate::text::case_folding::{fold_case, normalize_path};

/// Maximum number of globs that a lane is compared with. A lane that is near to more globs runs alone.
const MOST: usize = 64;

/// Lanes that a lane of a group must wait for, among those before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LaneDependencies {
    /// Their indexes in the group.
    pub(super) after: Vec<usize>,
    /// Whether it must wait for all of them.
    pub(super) alone: bool,
}

/// Returns the dependencies of each lane. Globs are looked up by their literal prefix, so a plan of many
/// disjoint lanes does not take quadratic time.
pub(super) fn find_dependencies(lanes: &[Lane]) -> Vec<LaneDependencies> {
    let mut known: BTreeMap<String, Vec<(usize, OwnedGlob)>> = BTreeMap::new();
    let mut all = Vec::with_capacity(lanes.len());
    for (at, lane) in lanes.iter().enumerate() {
        let own: Vec<(String, OwnedGlob)> = lane
            .owned
            .iter()
            .chain(&lane.also)
            .map(|glob| (literal_prefix(glob), OwnedGlob::new(glob)))
            .collect();
        all.push(find_overlaps(&own, &known));
        for (begins, glob) in own {
            known.entry(begins).or_default().push((at, glob));
        }
    }
    all
}

fn find_overlaps(
    own: &[(String, OwnedGlob)],
    known: &BTreeMap<String, Vec<(usize, OwnedGlob)>>,
) -> LaneDependencies {
    let mut waits = LaneDependencies::default();
    let mut compared = 0;
    for (begins, glob) in own {
        let shorter = (0..begins.len()).filter(|end| begins.is_char_boundary(*end));
        let shorter = shorter.filter_map(|end| known.get(&begins[..end]));
        let longer =
            known.range(begins.clone()..).take_while(|(other, _)| other.starts_with(begins.as_str()));
        for (at, other) in shorter.chain(longer.map(|(_, others)| others)).flatten() {
            compared += 1;
            if compared > MOST {
                return LaneDependencies { after: Vec::new(), alone: true };
            }
            if !waits.after.contains(at) && glob.overlaps(other) {
                waits.after.push(*at);
            }
        }
    }
    waits
}

/// Returns the literal prefix of every path that the glob owns. If two globs own the same path, the prefix of
/// one begins with the prefix of the other.
fn literal_prefix(glob: &str) -> String {
    let fixed = glob.find(['*', '?', '[', '\\', '{']).unwrap_or(glob.len());
    let plain = normalize_path(&glob[..fixed]);
    // If a pattern follows `src/`, the slash belongs to the prefix; at the end it only marks `src` as a
    // folder.
    let plain = if fixed == glob.len() { plain.trim_end_matches('/') } else { &plain };
    // A `.` before a pattern may or may not stay in the path.
    fold_case(plain.strip_suffix('.').unwrap_or(plain))
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec;

    use super::*;

    fn lane_owning(globs: &[&str]) -> Lane {
        Lane { owned: globs.iter().map(ToString::to_string).collect(), ..Lane::default() }
    }

    #[test]
    fn literal_prefix_hides_no_overlap() {
        let globs = [
            "src",
            "src/",
            "SRC/a.rs",
            "src/a.rs",
            "src/*.rs",
            "src/**",
            "**/*.md",
            "**",
            "README.md",
            "v1.2",
            "v1.2/a.rs",
            "src/{a,b}.rs",
            "{src,docs}/a.rs",
            "src/[ab].rs",
            r"src/\*.rs",
            "src/export",
            "src/export.rs",
            "s*",
            "ü/a",
            "ü",
            "U\u{308}/A",
            "./src//a.rs",
            "./*",
            "src/./*.rs",
            "src/",
            "straße/x",
            "STRASSE/**",
            "stra??e/x",
            "",
        ];
        for a in globs {
            for b in globs {
                let waits = find_dependencies(&[lane_owning(&[a]), lane_owning(&[b])]);
                let after = if OwnedGlob::new(a).overlaps(&OwnedGlob::new(b)) { vec![0] } else { Vec::new() };
                assert_eq!(waits[1], LaneDependencies { after, alone: false }, "{a} and {b}");
            }
        }
    }

    #[test]
    fn lane_near_many_globs_runs_alone() {
        let mut lanes: Vec<Lane> = (0..MOST).map(|at| lane_owning(&[&format!("src/m{at}/**")])).collect();
        lanes.push(lane_owning(&["src/**"]));
        lanes.push(lane_owning(&["src/**"]));
        let waits = find_dependencies(&lanes);
        assert!(waits[..MOST].iter().all(|waits| *waits == LaneDependencies::default()));
        assert_eq!(waits[MOST].after.len(), MOST);
        assert_eq!(waits[MOST + 1], LaneDependencies { after: Vec::new(), alone: true });
    }
}
