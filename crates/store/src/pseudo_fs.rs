//! File systems without real files: reading one of their entries can block for ever.

use std::path::Path;

use crate::error::LedgerError;

/// Their magic numbers on Linux, and their names.
#[cfg(target_os = "linux")]
const PSEUDO: [(u64, &str); 20] = [
    (0x9fa0, "procfs"),
    (0x9fa2, "usbfs"),
    (0x6265_6572, "sysfs"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0x6265_6570, "configfs"),
    (0x0027_e0eb, "cgroupfs"),
    (0x6367_7270, "cgroup2fs"),
    (0xcafe_4a11, "bpffs"),
    (0x6165_676c, "pstorefs"),
    (0xde5e_81e4, "efivarfs"),
    (0x6573_5543, "fusectl"),
    (0x4249_4e4d, "binfmt_misc"),
    (0x6e73_6673, "nsfs"),
    (0x1980_0202, "mqueue"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x6759_6969, "rpc_pipefs"),
    (0x6e66_7364, "nfsdfs"),
    (0x1cd1, "devpts"),
];

/// Refuses a path on one of them. Does not open the file: a process that closes a database which it also has
/// open elsewhere loses its locks.
#[cfg(target_os = "linux")]
pub(crate) fn refuse_pseudo(path: &Path) -> Result<(), LedgerError> {
    // A missing file would be created in its folder.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(stat) = [path, folder].iter().find_map(|path| rustix::fs::statfs(*path).ok()) else {
        return Ok(());
    };
    #[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "the numbers have 32 bits")]
    let kind = u64::from(stat.f_type as u32);
    match PSEUDO.iter().find(|(number, _)| *number == kind) {
        Some((_, name)) => Err(LedgerError::Failed(format!(
            "`{}` is on a file system that holds no files ({name})",
            path.display()
        ))),
        None => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn refuse_pseudo(_: &Path) -> Result<(), LedgerError> {
    Ok(())
}
