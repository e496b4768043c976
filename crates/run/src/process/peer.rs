//! Finds the process at the other end of a connection on loopback, and whether it runs below a guard.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use super::ancestry::{is_pid_below_guard, list_processes};

/// The place of the process at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerPlace {
    /// No guard is above any process that holds the connection.
    Free,
    /// A guard is above a process that holds the connection.
    BelowGuard,
    /// No process that holds the connection can be seen: it has ended, or it belongs to another user.
    Unknown,
}

/// Finds the place of the process that connected from `peer` to `server`.
pub fn find_peer_place(peer: SocketAddr, server: SocketAddr) -> PeerPlace {
    // Where the kernel has no such table, no guard is found either.
    let Ok(table) = fs::read_to_string("/proc/net/tcp") else { return PeerPlace::Free };
    let holders: Vec<i32> = find_inode(&table, peer, server).map(find_holders).unwrap_or_default();
    match holders.is_empty() {
        true => PeerPlace::Unknown,
        false if holders.iter().any(|pid| is_pid_below_guard(*pid)) => PeerPlace::BelowGuard,
        false => PeerPlace::Free,
    }
}

/// Returns the inode of the socket of a connection.
fn find_inode(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u64> {
    let (local, remote) = (table_address(local)?, table_address(remote)?);
    table.lines().skip(1).find_map(|row| {
        let fields: Vec<&str> = row.split_whitespace().collect();
        let is_same = fields.get(1) == Some(&local.as_str()) && fields.get(2) == Some(&remote.as_str());
        is_same.then(|| fields.get(9)?.parse().ok()).flatten().filter(|inode| *inode != 0)
    })
}

/// Returns an address as the kernel's table has it: `0100007F:1F90`.
fn table_address(address: SocketAddr) -> Option<String> {
    let IpAddr::V4(ip) = address.ip() else { return None };
    Some(format!("{:08X}:{:04X}", u32::from_ne_bytes(ip.octets()), address.port()))
}

/// Returns the processes that have a socket open.
fn find_holders(inode: u64) -> Vec<i32> {
    let wanted = format!("socket:[{inode}]");
    let has_it = |pid: i32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|link| link == Path::new(&wanted))
    };
    list_processes().into_iter().map(|process| process.stamp.pid).filter(|pid| has_it(*pid)).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn own_connection_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let stream = TcpStream::connect(server).unwrap();
        let peer = stream.local_addr().unwrap();
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        let inode = find_inode(&table, peer, server).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(find_holders(inode), [own]);
        assert_eq!(find_inode(&table, server, server), None);
        // A process that is gone cannot be judged.
        drop(stream);
        assert_eq!(find_peer_place(peer, server), PeerPlace::Unknown);
    }
}
