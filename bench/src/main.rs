//! The engine against its peers and against the limit, in one interleaved run.

mod markers;
mod measure;
mod memory;
mod report;
mod templates;

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

fn main() {
    let mut report = report::Report::default();
    templates::report(&mut report);
    markers::report(&mut report);
    println!("{}\n{}", report.table(), report.notes());
}
