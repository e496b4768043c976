//! Runs tests on a network that has only loopback.

use std::env;
use std::io;
use std::process::{Command, Stdio};

use crate::cli::Cli;
use crate::rerun::{rerun_test, test_name};
use crate::{not_tested, report_missing};

const INSIDE: &str = "CALLSHEET_TEST_ON_LOOPBACK";

/// Installs the CLIs, then runs `body` in a network namespace that has only `lo`.
///
/// The `#[test]` function itself must call this, with a closure that is the test: the test program is started
/// again with this one test, under `unshare`, so that the mock, the CLI and the test are all inside. On a
/// machine without such namespaces the body runs as well, and a line says that the isolation was not tested.
/// If one of the CLIs is missing, nothing runs, and a line says so.
pub fn on_loopback<F: FnOnce()>(clis: &[Cli], body: F) {
    if is_isolated() {
        let up = bring_loopback_up();
        assert!(up.is_ok(), "loopback cannot be brought up: {up:?}");
        return body();
    }
    for cli in clis {
        if let Err(why) = cli.program() {
            return report_missing(&format!("{} {}: {why}", cli.name(), cli.version()));
        }
    }
    // As root the plain form keeps the users; other users must become root in a user namespace.
    let forms: [&[&str]; 2] = [&["-n"], &["-rn"]];
    let works = |form: &&&[&str]| {
        let mut probe = Command::new("unshare");
        probe.args(**form).arg("true").stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    };
    match forms.iter().find(works) {
        Some(form) => {
            let program = env::current_exe().unwrap_or_default();
            rerun_test(Command::new("unshare").args(*form).arg(program).env(INSIDE, "1"), test_name::<F>());
        }
        None => {
            not_tested("network isolation: unshare cannot make a network namespace here");
            body();
        }
    }
}

/// Checks whether the test runs in a network namespace that nothing can leave.
pub fn is_isolated() -> bool {
    env::var_os(INSIDE).is_some()
}

/// Asks the kernel to bring interface 1 up, which is `lo` in a new namespace. Not every machine has `ip`.
#[cfg(target_os = "linux")]
fn bring_loopback_up() -> io::Result<()> {
    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, send, socket};

    const RTM_NEWLINK: u16 = 16;
    const NLM_F_REQUEST_AND_ACK: u16 = 1 | 4;
    const IFF_UP: u32 = 1;
    let mut message = Vec::new();
    message.extend(32_u32.to_ne_bytes());
    message.extend(RTM_NEWLINK.to_ne_bytes());
    message.extend(NLM_F_REQUEST_AND_ACK.to_ne_bytes());
    message.extend([0; 8]); // sequence and port
    message.extend([0; 4]); // family, padding, type
    message.extend(1_i32.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    // Without a protocol it is number 0, the one of routes and links.
    let kernel = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    send(&kernel, &message, SendFlags::empty())?;
    let mut answer = [0; 64];
    recv(&kernel, &mut answer, RecvFlags::empty())?;
    // After the header of 16 bytes: zero, or a negative error number.
    match i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]) {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

/// Other systems have no `unshare`, so this is never called.
#[cfg(not(target_os = "linux"))]
fn bring_loopback_up() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
