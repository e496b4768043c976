//! Timing: contenders take turns, so that whatever the machine does meanwhile hits all of them alike.

use std::time::{Duration, Instant};

pub(crate) struct Contender<'c> {
    pub(crate) name: &'static str,
    run: Box<dyn FnMut() -> usize + 'c>,
}

pub(crate) fn contender<'c>(name: &'static str, run: impl FnMut() -> usize + 'c) -> Contender<'c> {
    Contender { name, run: Box::new(run) }
}

/// The best time of each contender for one call, in nanoseconds, from interleaved rounds.
pub(crate) fn race(contenders: &mut [Contender<'_>], rounds: usize) -> Vec<f64> {
    let mut calls = Vec::new();
    for contender in contenders.iter_mut() {
        calls.push(calls_for(&mut contender.run));
    }
    let mut best = vec![f64::INFINITY; contenders.len()];
    for _ in 0..rounds {
        for (at, contender) in contenders.iter_mut().enumerate() {
            let start = Instant::now();
            for _ in 0..calls[at] {
                std::hint::black_box((contender.run)());
            }
            let each = start.elapsed().as_nanos() as f64 / calls[at] as f64;
            best[at] = best[at].min(each);
        }
    }
    best
}

/// How often to call it so that one measurement takes a few milliseconds.
fn calls_for(run: &mut dyn FnMut() -> usize) -> usize {
    std::hint::black_box(run());
    let start = Instant::now();
    std::hint::black_box(run());
    let one = start.elapsed().max(Duration::from_nanos(50));
    (Duration::from_millis(5).as_nanos() / one.as_nanos()).clamp(1, 20_000) as usize
}
