//! Tests that the record of a prompt restores the prompt, both from its parts and by composing it again.
//!
//! 2,000 cases; 100,000 with `CALLSHEET_LONG=1`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[expect(dead_code, reason = "shared with the other laws")]
#[path = "support/generated_prompts.rs"]
mod generated_prompts;
#[path = "support/hostile_texts.rs"]
mod hostile_texts;
#[expect(dead_code, reason = "shared with the other laws")]
#[path = "support/markdown.rs"]
mod markdown;

use callsheet_core::delivery::{DeliveredPart, PromptPart};
use callsheet_core::library::agent::DeliveryMethod;
use callsheet_core::library::format::ModelApi;
use callsheet_core::record::{
    AssemblyPart, Digest, Event, Id, LaunchRecord, LogStream, OUTPUT_BYTES, Output, RecordBundle,
    ReplayError, ReplayOutcome, Run, build_record, is_record_time, list_blobs, locate_parts,
    project_from_url, restore_request, restore_text, sha256, verify,
};
use callsheet_core::render::render;
use callsheet_core::text::hex::{from_hex, to_hex};
use callsheet_core::{PromptFormat, Request, SharedText, SourceRecorder, compose};
use generated_prompts::{Scenario, scenario};
use proptest::prelude::*;

fn new_run(request: &Request, recipe: &str) -> Run {
    let id = Id::parse("01a1e229-4e4c-75ef-8317-abb696d4e943").unwrap();
    Run::new(id, "2026-01-31T12:00:00.000000Z", request, recipe).unwrap()
}

/// Returns the request, the record and the text of a prompt. Returns `None` if the format cannot represent
/// it.
fn record_scenario(scenario: &Scenario, format: PromptFormat) -> Option<(Request, RecordBundle, String)> {
    let request = Request { format: Some(format), ..scenario.request() };
    let sources = SourceRecorder::new(scenario.sources());
    let composed = compose(&request, &sources).unwrap_or_else(|failure| panic!("{failure}"));
    let rendered = render(&composed.prompt, format, None).ok()?;
    let run = new_run(&request, &composed.prompt.recipe);
    let kept = build_record(
        run,
        &request,
        &sources.finish(),
        (&composed, &rendered, None::<ModelApi>),
        &composed.diagnostics,
    )
    .unwrap();
    Some((request, kept, rendered.text))
}

fn config() -> ProptestConfig {
    let long = std::env::var_os("CALLSHEET_LONG").is_some_and(|long| long == "1");
    let cases = if long { 100_000 } else { 2_000 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn record_restores_its_prompt(scenario in scenario(), at in 0..3_usize) {
        let format = [PromptFormat::Markdown, PromptFormat::Xml, PromptFormat::Json][at];
        if let Some((request, kept, text)) = record_scenario(&scenario, format) {
            let mut blob = |digest| kept.blobs.get(&digest).cloned();
            prop_assert_eq!(&restore_text(&kept.composed, &mut blob).unwrap(), &text);
            prop_assert_eq!(restore_request(&kept.composed, &mut blob).unwrap(), request);
            prop_assert_eq!(verify(&kept.composed, &mut blob), Ok(ReplayOutcome::Same));
            let (whole, placed) = locate_parts(&kept.composed, &mut blob).unwrap();
            prop_assert_eq!(whole, text);
            prop_assert!(placed.windows(2).all(|two| two[0].end == two[1].start));
            let needed = list_blobs(&kept.composed).unwrap();
            prop_assert_eq!(needed, kept.blobs.keys().copied().collect());
            let event = Event::Composed(kept.composed);
            prop_assert_eq!(Event::read("composed", &event.payload().unwrap()), Ok(event));
        }
    }
}

/// Records a prompt with long texts, and with data that looks like the placeholder of a long text.
fn record_long_texts() -> (Request, RecordBundle, String) {
    let long = "A long value, given by a person.\n".repeat(40);
    let looks_like = serde_json::json!({ "$blob": "x", "n": { "$as_it_is": { "$blob": 1 } }, "long": long });
    let request: Request = serde_json::from_value(serde_json::json!({
        "recipe": "layers",
        "role": "supervisor",
        "instructions": long,
        "tools": [looks_like],
        "context": [{ "name": "hook", "data": looks_like }],
    }))
    .unwrap();
    let sources = SourceRecorder::new(callsheet_core::Builtin);
    let composed = compose(&request, &sources).unwrap();
    let rendered = render(&composed.prompt, composed.prompt.format, None).unwrap();
    let run = new_run(&request, "layers");
    let kept = build_record(run, &request, &sources.finish(), (&composed, &rendered, None), &[]).unwrap();
    (request, kept, long)
}

#[test]
fn long_texts_are_stored_once() {
    let (request, kept, long) = record_long_texts();
    let mut blob = |digest| kept.blobs.get(&digest).cloned();
    assert_eq!(restore_request(&kept.composed, &mut blob).unwrap(), request);
    assert_eq!(verify(&kept.composed, &mut blob), Ok(ReplayOutcome::Same));
    let digest = sha256(&[long.as_bytes()]);
    assert_eq!(kept.blobs.get(&digest).map(SharedText::as_str), Some(long.as_str()));
    assert!(
        kept.composed
            .output
            .parts
            .iter()
            .all(|part| !matches!(part, AssemblyPart::Literal(_, text) if text.len() > 512))
    );
}

#[test]
fn verify_needs_whole_parts() {
    let (_, mut kept, _) = record_long_texts();
    let bytes = kept.composed.output.bytes;
    let part = |part: PromptPart, start: usize, end: usize| DeliveredPart {
        part,
        by: DeliveryMethod::Stdin,
        start,
        end,
    };
    let mut check = |parts: &[(usize, usize)]| {
        let kinds = [PromptPart::Shared, PromptPart::Own];
        let parts = parts.iter().zip(kinds).map(|((start, end), kind)| part(kind, *start, *end)).collect();
        kept.composed.launch = Some(LaunchRecord { parts, ..LaunchRecord::default() });
        verify(&kept.composed, &mut |digest| kept.blobs.get(&digest).cloned()).unwrap()
    };
    assert_eq!(check(&[]), ReplayOutcome::Same);
    assert_eq!(check(&[(0, 9), (9, bytes)]), ReplayOutcome::Same);
    let differs = ReplayOutcome::Differs {
        input: Some("launch parts".into()),
        why: "together, the delivered parts are not the prompt".into(),
    };
    for parts in [[(0, 9), (10, bytes)], [(0, 9), (8, bytes)], [(1, 9), (9, bytes)], [(0, 9), (9, bytes - 1)]]
    {
        assert_eq!(check(&parts), differs, "{parts:?}");
    }
    assert_eq!(check(&[(0, 9), (9, bytes + 1)]), differs);
    assert_eq!(check(&[(0, 0), (0, bytes)]), differs);
}

#[test]
fn c6_output_records_have_bounded_size() {
    let short = "a line of forty bytes, with its line end\n";
    let long = "ä".repeat(OUTPUT_BYTES);
    let text = format!("{}{long}\n{}rest", short.repeat(2_000), short.repeat(10));
    let records = Output::split_records(LogStream::Stdout, 5, &text);
    let shape: Vec<(u64, usize, bool)> =
        records.iter().map(|record| (record.line, record.text.matches('\n').count(), record.cut)).collect();
    let fit = OUTPUT_BYTES / short.len();
    let (one, two) = (fit as u64, 2_000 - fit);
    assert_eq!(shape, [(5, fit, false), (5 + one, two, false), (2_005, 0, true), (2_006, 10, false)]);
    assert!(
        records.iter().all(|record| record.text.len() <= OUTPUT_BYTES && record.stream == LogStream::Stdout)
    );
    assert_eq!(records[2].text.as_str(), "ä".repeat(OUTPUT_BYTES / 2));
    let whole = records.iter().map(|record| record.text.as_str()).collect::<String>();
    assert_eq!(whole, text.replacen(&format!("{long}\n"), &records[2].text, 1));
    assert_eq!(Output::split_records(LogStream::Stderr, 1, ""), []);
}

#[test]
fn missing_blob_is_named() {
    let (_, kept, _) = record_long_texts();
    for missing in kept.blobs.keys() {
        let found = verify(&kept.composed, &mut |digest: Digest| {
            kept.blobs.get(&digest).filter(|_| digest != *missing).cloned()
        });
        assert!(
            matches!(&found, Err(ReplayError { digest, .. }) if *digest == Some(*missing)),
            "{missing}: {found:?}"
        );
    }
}

#[test]
fn clones_of_repository_share_name() {
    for url in [
        "https://example.org/team/shop.git",
        "https://example.org/team/shop/",
        "http://EXAMPLE.org:80/team/shop.git",
        "https://me:secret@example.org/team/shop.git",
        "https://me:se@cr:et@example.org:443/team/shop.git/",
        "https://token@example.org/team/shop?access_token=secret#x",
        "ssh://git@example.org:22/team/shop.git",
        "git@example.org:team/shop.git",
        "me:secret@example.org:team/shop.git",
        "example.org:team/shop",
        "git://example.org/team/shop.git",
        " https://example.org//team/shop.git\n",
    ] {
        assert_eq!(project_from_url(url).as_deref(), Some("example.org/team/shop"), "{url}");
    }
}

#[test]
fn other_urls_keep_distinct_names() {
    let cases = [
        ("/srv/git/shop.git", Some("/srv/git/shop")),
        ("file:///srv/git/shop.git", Some("/srv/git/shop")),
        ("../shop", Some("../shop")),
        ("https://example.org:8443/shop", Some("example.org:8443/shop")),
        ("/srv/a:b/shop", Some("/srv/a:b/shop")),
        ("https://", None),
        ("", None),
        ("a\u{7}b", None),
    ];
    for (url, name) in cases {
        assert_eq!(project_from_url(url).as_deref(), name, "{url}");
    }
}

#[test]
fn only_spelled_times_are_times() {
    for time in ["2026-01-31T12:00:00.000000Z", "0000-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"]
    {
        assert!(is_record_time(time), "{time}");
    }
    for odd in [
        "",
        "now",
        "2026-01-31T12:00:00Z",
        "2026-13-31T12:00:00.000000Z",
        "2026-01-00T12:00:00.000000Z",
        "2026-01-31T24:00:00.000000Z",
        "2026-01-31 12:00:00.000000Z",
        "2026-01-31T12:00:00.00000äZ",
    ] {
        assert!(!is_record_time(odd), "{odd}");
    }
}

#[test]
fn hex_round_trips() {
    let bytes: [u8; 256] = std::array::from_fn(|at| at as u8);
    let text = to_hex(bytes);
    assert!(text.starts_with("00010203") && text.ends_with("fcfdfeff"));
    assert_eq!(from_hex::<256>(&text), Some(bytes));
    for odd in ["", "0", "000", "0000", "0G", "0A", "é"] {
        assert_eq!(from_hex::<1>(odd), None, "{odd}");
    }
}
