//! Which lanes may not run at once: those that own a file together. What takes too long to tell counts as yes.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::Lane;
use crate::caseless::{fold_case, plain_path};
use crate::submission::OwnedGlob;

/// A lane is compared with no more globs than this. One that is near to more of them runs alone.
const MOST: usize = 64;

/// What a lane of a group has to wait for, among those before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LaneDependencies {
    /// Their places in the group.
    pub(super) after: Vec<usize>,
    /// All of them.
    pub(super) alone: bool,
}

/// For each lane what it waits for. Globs are found by how they begin, so that a plan of many disjoint lanes does not
/// take the square of their number.
pub(super) fn waits(lanes: &[Lane]) -> Vec<LaneDependencies> {
    let mut known: BTreeMap<String, Vec<(usize, OwnedGlob)>> = BTreeMap::new();
    let mut all = Vec::with_capacity(lanes.len());
    for (at, lane) in lanes.iter().enumerate() {
        let own: Vec<(String, OwnedGlob)> = lane
            .owned
            .iter()
            .chain(&lane.also)
            .map(|glob| (literal_prefix(glob), OwnedGlob::new(glob)))
            .collect();
        all.push(compare(&own, &known));
        for (begins, glob) in own {
            known.entry(begins).or_default().push((at, glob));
        }
    }
    all
}

fn compare(
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

/// The letters that every path begins with that the glob owns. Of two globs that own a path together, one begins as
/// the other does.
fn literal_prefix(glob: &str) -> String {
    let fixed = glob.find(['*', '?', '[', '\\', '{']).unwrap_or(glob.len());
    let plain = plain_path(&glob[..fixed]);
    // Of `src/` and what follows, the slash is part of the beginning; alone it says that `src` is a folder.
    let plain = if fixed == glob.len() { plain.trim_end_matches('/') } else { &plain };
    // Of `.` and what follows, nobody knows whether it stays.
    fold_case(plain.strip_suffix('.').unwrap_or(plain))
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec;

    use super::*;

    fn owning(globs: &[&str]) -> Lane {
        Lane { owned: globs.iter().map(ToString::to_string).collect(), ..Lane::default() }
    }

    #[test]
    fn how_globs_begin_hides_no_overlap() {
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
                let waits = waits(&[owning(&[a]), owning(&[b])]);
                let after = if OwnedGlob::new(a).overlaps(&OwnedGlob::new(b)) { vec![0] } else { Vec::new() };
                assert_eq!(waits[1], LaneDependencies { after, alone: false }, "{a} and {b}");
            }
        }
    }

    #[test]
    fn what_is_near_to_very_many_runs_alone() {
        let mut lanes: Vec<Lane> = (0..MOST).map(|at| owning(&[&format!("src/m{at}/**")])).collect();
        lanes.push(owning(&["src/**"]));
        lanes.push(owning(&["src/**"]));
        let waits = waits(&lanes);
        assert!(waits[..MOST].iter().all(|waits| *waits == LaneDependencies::default()));
        assert_eq!(waits[MOST].after.len(), MOST);
        assert_eq!(waits[MOST + 1], LaneDependencies { after: Vec::new(), alone: true });
    }
}
