//! The machine that the figures are from, as it describes itself.

use std::fs;
use std::process::Command;

pub(crate) fn describe() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map_or("unknown", |(_, value)| value.trim()).to_string()
    };
    let flags = field("flags");
    let known = ["sse4_2", "avx", "avx2", "avx512f", "bmi2"];
    let flags: Vec<&str> = flags.split(' ').filter(|flag| known.contains(flag)).collect();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes = memory.split_whitespace().nth(1).and_then(|word| word.parse::<f64>().ok());
    let memory =
        kilobytes.map_or("unknown".into(), |kilobytes| format!("{:.0} GB", kilobytes * 1024.0 / 1e9));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown").to_string();
    let rust = Command::new("rustc").arg("--version").output();
    let rust =
        rust.map_or("unknown".into(), |output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    format!(
        "Measured on: {cores} cores ({}; {}), {memory} of memory, Linux {}, {rust}; load when it began: {load}.",
        field("model name"),
        flags.join(" "),
        kernel.trim(),
    )
}
