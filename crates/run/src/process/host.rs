//! The durability of a directory's file system, and the names of the machine and the user.

use std::path::Path;

/// Returns the kind of a file system that is lost after a restart or with its container; `None` for a durable
/// one.
pub fn find_temporary_file_system(dir: &Path) -> Option<&'static str> {
    // The directory may not exist yet; its parents do.
    let found = dir.ancestors().find_map(|dir| rustix::fs::statfs(dir).ok())?;
    temporary_kind(found.f_type as u64)
}

/// Returns the name of the user that this process runs as, or the user id if there is no name.
pub fn read_user_name() -> String {
    let number = rustix::process::geteuid().as_raw().to_string();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let own = |line: &str| {
        let mut fields = line.split(':');
        let (name, uid) = (fields.next()?, fields.nth(1)?);
        (uid == number).then(|| name.to_owned())
    };
    users.lines().find_map(own).unwrap_or(number)
}

/// Returns the name of this machine.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok());
    name.map(|name| name.trim().to_owned()).unwrap_or_default()
}

/// Returns the kind by the number that the kernel gives it.
fn temporary_kind(number: u64) -> Option<&'static str> {
    match number & 0xffff_ffff {
        0x0102_1994 => Some("tmpfs"),
        0x8584_58f6 => Some("ramfs"),
        0x794c_7630 => Some("overlayfs"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_file_systems_are_recognised() {
        assert_eq!(temporary_kind(0x0102_1994), Some("tmpfs"));
        assert_eq!(temporary_kind(0x794c_7630), Some("overlayfs"));
        // ext4
        assert_eq!(temporary_kind(0xef53), None);
    }
}
