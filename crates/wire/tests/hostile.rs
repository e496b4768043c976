//! Clients that do harm, by mistake or on purpose: memory, time and facts stay within the limits, and nothing is left.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod client;

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use callsheet_wire::{
    ModelServer, Probe, ProbeCounts, ProbeLimits, RefusalReason, RefusedRequest, RequestHandler,
    ServerAddress, ServerLimits, WireAnswer, WireRequest,
};
use client::{DEADLINE, connect, exchange, post, post_bytes, read_rest, split_url, status};

const MIB: u64 = 1 << 20;

/// The size of a body that no test holds in memory.
const GIGABYTE: u64 = 1 << 30;

const CHAT: &str = "/v1/chat/completions";

const LIMITS: ProbeLimits = ProbeLimits {
    body_bytes: 4 * MIB,
    requests: 20,
    kept_bytes: 8 * MIB,
    connections: 32,
    head_time: Duration::from_millis(300),
    body_time: Duration::from_secs(20),
};

/// The most memory that a case may add: the bodies that arrive, the kept ones, and the buffers of connections.
const MOST_GROWTH: u64 = 32 * MIB;

/// Returns a value of `/proc/self/status` in bytes.
fn memory(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

/// Returns the number of open files, and of threads of servers.
fn open_files_and_threads() -> (usize, usize) {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    let threads = names.filter(|name| name.trim() == "callsheet-wire").count();
    (fs::read_dir("/proc/self/fd").unwrap().count(), threads)
}

/// Runs a case alone, and checks that it needs little memory and leaves nothing.
fn run_case<T>(case: impl FnOnce() -> T) -> T {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = open_files_and_threads();
    // Sets the peak to the present size.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let size = memory("VmRSS");
    let result = case();
    let growth = memory("VmHWM").saturating_sub(size);
    assert!(growth < MOST_GROWTH, "the case needed {growth} bytes");
    assert_eq!(open_files_and_threads(), before);
    result
}

/// Runs a case with a probe, and checks that the probe still answers after it.
fn run_on_probe(limits: ProbeLimits, case: impl FnOnce(&Probe)) {
    run_case(|| {
        let probe = Probe::start(limits).unwrap();
        case(&probe);
        assert_eq!(status(&exchange(&probe.url(), b"GET / HTTP/1.1\r\n\r\n")), "404");
    });
}

/// Waits until the probe refused as many requests.
fn wait_for_refused(probe: &Probe, count: u64) {
    let begun = Instant::now();
    while probe.counts().refused < count {
        assert!(begun.elapsed() < DEADLINE, "{:?}", probe.refused());
        thread::sleep(Duration::from_millis(1));
    }
}

fn reasons(probe: &Probe) -> Vec<RefusalReason> {
    probe.refused().into_iter().map(|refused| refused.reason).collect()
}

/// Returns the head of a POST request to a model.
fn head(probe: &Probe, headers: &str) -> String {
    let url = probe.url();
    format!("POST {}{CHAT} HTTP/1.1\r\n{headers}\r\n", split_url(&url).1)
}

/// Sends a gigabyte from one small buffer, each part after `prefix` and before `suffix`.
fn send_gigabyte(stream: &mut TcpStream, prefix: &str, suffix: &str) -> io::Result<()> {
    let part = vec![b' '; 1 << 16];
    for _ in 0..GIGABYTE / part.len() as u64 {
        stream.write_all(prefix.as_bytes())?;
        stream.write_all(&part)?;
        stream.write_all(suffix.as_bytes())?;
    }
    Ok(())
}

#[test]
fn silence_is_not_a_request() {
    run_on_probe(LIMITS, |probe| {
        let mut silent = connect(&probe.url());
        assert_eq!(read_rest(&mut silent), "");
        drop(connect(&probe.url()));
        assert!(!probe.wait_for_request(Duration::from_millis(10)));
        assert_eq!((probe.counts(), probe.requests().len()), (ProbeCounts::default(), 0));
    });
}

#[test]
fn endless_requests_are_counted() {
    run_on_probe(LIMITS, |probe| {
        let url = probe.url();
        let body = [b"{\"a\":\"", &*vec![b'x'; 1 << 18], b"\"}"].concat();
        let answers: Vec<String> = (0..300).map(|_| status(&post(&url, CHAT, &body)).to_owned()).collect();
        let kept = answers.iter().position(|answer| answer == "400").unwrap();
        assert_eq!(kept, 20);
        assert!(answers[20..].iter().all(|answer| answer == "400"));
        assert_eq!(probe.counts(), ProbeCounts { kept: 20, refused: 280, outside: 0 });
        assert_eq!(reasons(probe), vec![RefusalReason::ManyRequests { limit: 20 }; 64]);
    });
}

#[test]
fn kept_bytes_have_a_limit() {
    run_on_probe(LIMITS, |probe| {
        let body = [b"{\"a\":\"", &*vec![b'x'; 3 << 20], b"\"}"].concat();
        let answers: Vec<String> =
            (0..5).map(|_| status(&post(&probe.url(), CHAT, &body)).to_owned()).collect();
        assert_eq!(answers, ["200", "200", "400", "400", "400"]);
        assert_eq!(reasons(probe), vec![RefusalReason::KeptBytes { limit: 8 * MIB }; 3]);
    });
}

#[test]
fn claimed_gigabyte_is_not_held() {
    run_on_probe(LIMITS, |probe| {
        let mut stream = connect(&probe.url());
        stream.write_all(head(probe, &format!("Content-Length: {GIGABYTE}\r\n")).as_bytes()).unwrap();
        send_gigabyte(&mut stream, "", "").unwrap();
        assert_eq!(status(&read_rest(&mut stream)), "413");
        let reason = RefusalReason::LargeBody { limit: 4 * MIB, bytes: GIGABYTE, has_more: false };
        assert_eq!(reasons(probe), [reason]);
        assert!(probe.wait_for_request(Duration::ZERO));
    });
}

#[test]
fn chunked_gigabyte_is_not_held() {
    run_on_probe(LIMITS, |probe| {
        let mut stream = connect(&probe.url());
        stream.write_all(head(probe, "Transfer-Encoding: chunked\r\n").as_bytes()).unwrap();
        send_gigabyte(&mut stream, "10000\r\n", "\r\n").unwrap();
        stream.write_all(b"0\r\n\r\n").unwrap();
        assert_eq!(status(&read_rest(&mut stream)), "413");
        let reason = RefusalReason::LargeBody { limit: 4 * MIB, bytes: GIGABYTE, has_more: false };
        assert_eq!(reasons(probe), [reason]);
    });
}

#[test]
fn endless_body_ends_in_time() {
    let limits = ProbeLimits { body_time: Duration::from_millis(500), ..LIMITS };
    run_on_probe(limits, |probe| {
        let mut stream = connect(&probe.url());
        stream.write_all(head(probe, "Transfer-Encoding: chunked\r\n").as_bytes()).unwrap();
        let begun = Instant::now();
        // The server ends the connection, which a write reports.
        while send_gigabyte(&mut stream, "10000\r\n", "\r\n").is_ok() {
            assert!(begun.elapsed() < DEADLINE);
        }
        wait_for_refused(probe, 1);
        let reasons = reasons(probe);
        assert!(
            matches!(reasons[..], [RefusalReason::LargeBody { limit, bytes, has_more: true }] if limit == 4 * MIB && bytes > limit),
            "{reasons:?}"
        );
    });
}

#[test]
fn huge_claims_need_no_memory() {
    run_on_probe(LIMITS, |probe| {
        // The client claims more than a machine has, and ends.
        let mut stream = connect(&probe.url());
        stream.write_all(head(probe, &format!("Content-Length: {}\r\n", 1_u64 << 60)).as_bytes()).unwrap();
        stream.write_all(b"{").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        read_rest(&mut stream);
        wait_for_refused(probe, 1);
        // A length that no number can hold is not HTTP.
        let length = "9".repeat(40);
        exchange(&probe.url(), head(probe, &format!("Content-Length: {length}\r\n")).as_bytes());
        wait_for_refused(probe, 2);
        let large = RefusalReason::LargeBody { limit: 4 * MIB, bytes: 1_u64 << 60, has_more: false };
        assert_eq!(reasons(probe), [large, RefusalReason::BrokenHead]);
    });
}

#[test]
fn broken_json_is_refused() {
    run_on_probe(LIMITS, |probe| {
        let deep = b"{\"a\":".repeat(200_000);
        let cases: [&[u8]; 7] =
            [b"", b"{", b"{\"model\":\"\xff\xfe\"}", b"\0", b"{}{}", b"{\"stream\":1}", &deep];
        for body in cases {
            assert_eq!(status(&post(&probe.url(), CHAT, body)), "400");
        }
        let is_json = |reason: &RefusalReason| matches!(reason, RefusalReason::NotJson { .. });
        assert_eq!(
            (reasons(probe).iter().filter(|reason| is_json(reason)).count(), probe.counts().kept),
            (7, 0)
        );
    });
}

#[test]
fn dense_json_needs_no_more_memory() {
    // As values, two million numbers would need more than the limit of this test.
    let list = format!("[0{}]", ",0".repeat(1_900_000));
    let text = "x".repeat(3 << 20);
    for body in [
        format!("{{\"a\":{list}}}"),
        format!("{{\"response_format\":{{\"schema\":{list}}}}}"),
        format!("{{\"response_format\":{{\"schema\":{{\"enum\":[\"{text}\"]}}}}}}"),
        format!("{{\"model\":\"{text}\",\"stream\":true}}"),
    ] {
        run_on_probe(LIMITS, |probe| {
            let answer = post(&probe.url(), CHAT, body.as_bytes());
            assert_eq!(status(&answer), "200");
            assert!(answer.len() < 2000 && answer.contains("\"content\":\"ok\""), "{answer}");
            assert_eq!(probe.requests()[0].body.len(), body.len());
        });
    }
}

/// Returns a gigabyte of blanks, compressed.
fn compressed_gigabyte() -> Vec<u8> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    let part = vec![b' '; 1 << 16];
    for _ in 0..GIGABYTE / part.len() as u64 {
        encoder.write_all(&part).unwrap();
    }
    encoder.finish().unwrap()
}

#[test]
fn compressed_gigabyte_is_not_held() {
    // Sixteen blanks, for which a decoder should keep a window of 128 MiB.
    let wide = b"\x28\xb5\x2f\xfd\x00\x88\x83\x00\x00 ";
    run_on_probe(LIMITS, |probe| {
        for (body, code) in [(&*compressed_gigabyte(), "413"), (wide, "400")] {
            let request = post_bytes(&probe.url(), CHAT, "Content-Encoding: zstd\r\n", body);
            assert_eq!(status(&exchange(&probe.url(), &request)), code);
        }
        let large = RefusalReason::LargeBody { limit: 4 * MIB, bytes: 4 * MIB, has_more: true };
        assert_eq!(reasons(probe), [large, RefusalReason::BrokenEncoding]);
    });
}

#[test]
fn broken_chunks_are_refused() {
    run_on_probe(LIMITS, |probe| {
        for chunks in ["zz\r\n", "-1\r\n{}\r\n0\r\n\r\n", "2\r\n{}x\r\n", "ffffffffffffffffff\r\n", "5\r\n{}"]
        {
            let mut stream = connect(&probe.url());
            let request = head(probe, "Transfer-Encoding: chunked\r\n") + chunks;
            stream.write_all(request.as_bytes()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            read_rest(&mut stream);
        }
        wait_for_refused(probe, 5);
        let bytes = [0, 0, 2, 0, 2];
        assert_eq!(reasons(probe), bytes.map(|bytes| RefusalReason::BrokenBody { bytes }));
    });
}

#[test]
fn header_bombs_are_refused() {
    run_on_probe(LIMITS, |probe| {
        let long = format!("X: {}\r\n", "x".repeat(1 << 20));
        let many: String = (0..5000).map(|number| format!("X-{number}: 1\r\n")).collect();
        for (count, headers) in [(1, &long), (2, &many)] {
            let mut stream = connect(&probe.url());
            // The server may end the connection before it has all of them.
            let _ = stream.write_all(head(probe, headers).as_bytes());
            let mut answer = [0; 12];
            if stream.read_exact(&mut answer).is_ok() {
                assert_eq!(&answer, b"HTTP/1.1 431");
            }
            wait_for_refused(probe, count);
        }
        assert_eq!(reasons(probe), vec![RefusalReason::LargeHead; 2]);
    });
}

#[test]
fn half_a_request_ends_in_time() {
    let limits = ProbeLimits { body_time: Duration::from_millis(300), ..LIMITS };
    run_on_probe(limits, |probe| {
        let mut stream = connect(&probe.url());
        stream.write_all(b"POST /v1/mess").unwrap();
        read_rest(&mut stream);
        wait_for_refused(probe, 1);
        let url = probe.url();
        let whole = post_bytes(&url, CHAT, "", b"{\"model\":1}");
        assert_eq!(status(&exchange(&url, &whole[..whole.len() - 4])), "408");
        let mut gone = connect(&url);
        gone.write_all(&whole[..whole.len() - 4]).unwrap();
        gone.shutdown(Shutdown::Write).unwrap();
        read_rest(&mut gone);
        wait_for_refused(probe, 3);
        assert_eq!(
            reasons(probe),
            [
                RefusalReason::SlowHead,
                RefusalReason::SlowBody { bytes: 7 },
                RefusalReason::BrokenBody { bytes: 7 }
            ]
        );
    });
}

#[test]
fn other_protocols_are_refused() {
    run_on_probe(LIMITS, |probe| {
        let tls = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
        let http2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        for (count, bytes) in [(1, &tls[..]), (2, http2), (3, b"\r\n\r\nhello there\r\n\r\n")] {
            read_rest(&mut {
                let mut stream = connect(&probe.url());
                stream.write_all(bytes).unwrap();
                stream
            });
            wait_for_refused(probe, count);
        }
        assert_eq!(reasons(probe), vec![RefusalReason::BrokenHead; 3]);
    });
}

#[test]
fn many_connections_wait_their_turn() {
    run_on_probe(LIMITS, |probe| {
        let url = probe.url();
        let silent: Vec<TcpStream> = (0..500).map(|_| connect(&url)).collect();
        assert_eq!(status(&post(&url, CHAT, b"{}")), "200");
        drop(silent);
        assert_eq!(probe.counts(), ProbeCounts { kept: 1, refused: 0, outside: 0 });
    });
}

#[test]
fn many_half_bodies_share_memory() {
    let limits = ProbeLimits { body_time: Duration::from_millis(1500), ..LIMITS };
    run_on_probe(limits, |probe| {
        let url = probe.url();
        let request = post_bytes(&url, CHAT, "", &vec![b' '; 4 << 20]);
        let half = Arc::new(request[..request.len() - 1].to_vec());
        let clients: Vec<_> = (0..12)
            .map(|_| {
                let (url, half) = (url.clone(), Arc::clone(&half));
                thread::spawn(move || {
                    let mut stream = connect(&url);
                    // The server ends those that do not fit.
                    let _ = stream.write_all(&half);
                    let _ = read_rest(&mut stream);
                })
            })
            .collect();
        for client in clients {
            client.join().unwrap();
        }
        wait_for_refused(probe, 12);
        let held = RefusalReason::HeldBytes { limit: 8 * MIB };
        let is_known =
            |reason: &RefusalReason| *reason == held || matches!(reason, RefusalReason::SlowBody { .. });
        assert!(
            reasons(probe).contains(&held) && reasons(probe).iter().all(is_known),
            "{:?}",
            reasons(probe)
        );
    });
}

/// Answers with more bytes than the system takes for a client that does not read.
struct LongAnswer(Mutex<Vec<RefusedRequest>>);

impl RequestHandler for LongAnswer {
    fn answer(&self, _: WireRequest) -> WireAnswer {
        WireAnswer::json(200, vec![b' '; 16 << 20])
    }

    fn note_refused(&self, refused: RefusedRequest) {
        self.0.lock().unwrap().push(refused);
    }
}

#[test]
fn answer_that_is_not_read_ends() {
    run_case(|| {
        let limits = ServerLimits {
            body_bytes: MIB,
            held_bytes: MIB,
            connections: 1,
            head_time: Duration::from_millis(300),
            body_time: Duration::from_millis(300),
            exchange_time: Duration::from_millis(600),
        };
        let handler = Arc::new(LongAnswer(Mutex::default()));
        let server =
            ModelServer::start(limits, ServerAddress::Open, Arc::clone(&handler) as Arc<dyn RequestHandler>)
                .unwrap();
        let mut idle = connect(&server.url());
        idle.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        // There is one connection: the next client gets its turn when the first one is ended.
        let mut next = connect(&server.url());
        next.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = [0; 15];
        next.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
        let reasons: Vec<_> =
            handler.0.lock().unwrap().iter().map(|refused| refused.reason.clone()).collect();
        assert_eq!(reasons, [RefusalReason::SlowReader]);
    });
}
