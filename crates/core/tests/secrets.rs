//! Tests secrets: the shipped rules, the redaction of lines, and sealed values.

use std::collections::BTreeSet;

use callsheet_core::diag::{Code, Diagnostic, Diagnostics, Severity, SourceSpan};
use callsheet_core::library::layout::Layout;
use callsheet_core::record::{
    Composed, Digest, Id, ReplayOutcome, Run, SealedText, build_record, verify_sealed,
};
use callsheet_core::render::render;
use callsheet_core::secrets::{
    Gate, HmacKey, SecretMode, SecretRedactor, SecretRules, find_missing_values, mask_address,
    mask_address_in, mask_addresses, seal, unseal,
};
use callsheet_core::{
    Builtin, FILES, Listing, ListingEntry, ListingLimits, Request, SharedText, SlotValues, SourceError,
    SourceId, SourceRecorder, SourceRoot, Sources, compose,
};

/// The shipped rule files as a user's own files, which are compiled and checked when they are read.
struct Foreign;

impl Sources for Foreign {
    fn text(&self, id: &SourceId) -> Result<Option<SharedText>, SourceError> {
        let own = id.root() == SourceRoot::User;
        Ok(FILES
            .iter()
            .find(|(path, _)| own && *path == id.path())
            .map(|(_, text)| SharedText::from_static(text)))
    }

    fn list(&self, dir: &SourceId, _: ListingLimits) -> Result<Option<Listing>, SourceError> {
        if (dir.root(), dir.path()) != (SourceRoot::User, "secrets") {
            return Ok(None);
        }
        let paths = FILES.iter().filter_map(|(path, _)| path.strip_prefix("secrets/"));
        let entries = paths.map(|path| ListingEntry { path: path.into(), dir: false }).collect();
        Ok(Some(Listing { entries, ..Listing::default() }))
    }
}

/// Shipped patterns may exceed the size limit of a user's patterns, but must satisfy all other checks.
#[test]
fn shipped_patterns_are_valid() {
    if let Err(Diagnostics(wrong)) = SecretRules::load(&Foreign, &Layout::default()) {
        let wrong: Vec<_> = wrong.iter().filter(|diag| !diag.message.ends_with("it is too large")).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
    SecretRules::load_shipped().unwrap();
}

#[test]
fn shipped_files_contain_no_secret() {
    let rules = SecretRules::load_shipped().unwrap();
    let found: Vec<_> = FILES
        .iter()
        .flat_map(|(path, text)| {
            rules.scan(text).into_iter().map(move |hit| (*path, hit.rule, &text[hit.range]))
        })
        .collect();
    assert_eq!(found, []);
}

fn generate_key_lines() -> Vec<String> {
    (0..6_u64)
        .map(|line| {
            (0..64_u64)
                .map(|at| {
                    let mixed = (line * 64 + at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
                    char::from(
                        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
                            [(mixed % 64) as usize],
                    )
                })
                .collect()
        })
        .collect()
}

#[test]
fn private_key_is_redacted_by_line() {
    let rules = SecretRules::load_shipped().unwrap();
    let [begin, end] = ["BEGIN", "END"].map(|word| format!("-----{word} RSA PRIVATE KEY-----"));
    let mut redactor = SecretRedactor::new(&rules);
    let mut stream = vec!["$ cat key.pem\n".to_string(), format!("{begin}\n")];
    stream.extend(generate_key_lines().into_iter().map(|line| format!("{line}\n")));
    stream.extend([format!("{end}\n"), "done\n".into()]);
    let redacted: String = stream.iter().map(|line| redactor.redact_line(line).into_owned()).collect();
    let hidden = "[secret:private-key:1]\n".repeat(6);
    assert_eq!(redacted, format!("$ cat key.pem\n{begin}\n{hidden}{end}\ndone\n"));
    // Text that only mentions a key does not hide the rest of the stream.
    let spoken =
        [format!("It begins with {begin}\n"), "and then there is a body, of course.\n".into(), "ok\n".into()];
    let unchanged: Vec<String> = spoken.iter().map(|line| redactor.redact_line(line).into_owned()).collect();
    assert_eq!(unchanged, spoken);
}

#[test]
fn private_key_in_json_is_redacted() {
    let rules = SecretRules::load_shipped().unwrap();
    let [begin, end] = ["BEGIN", "END"].map(|word| format!("-----{word} PRIVATE KEY-----"));
    let line = format!("{{\"text\": \"{begin}\\n{}\\n{end}\\n\"}}", generate_key_lines().join("\\n"));
    let wanted = format!("{{\"text\": \"{begin}[secret:private-key:1]{end}\\n\"}}");
    assert_eq!(SecretRedactor::new(&rules).redact_line(&line), wanted);
}

#[test]
fn delivered_value_is_redacted_from_output() {
    let rules = SecretRules::load_shipped().unwrap();
    let mut redactor = SecretRedactor::new(&rules);
    redactor.add_value("login", "open sesame");
    assert_eq!(redactor.redact_line("I used open sesame to get in"), "I used [secret:value:login] to get in");
}

fn request_with_login(login: &str) -> Request {
    Request {
        recipe: Some("layers".into()),
        instructions: Some("Go.".into()),
        values: SlotValues::from([("login", login), ("user", "anna")]),
        secret: BTreeSet::from(["login".to_string()]),
        ..Request::default()
    }
}

#[test]
fn sealed_request_opens_only_with_value() {
    let (keyed, true_request) = (HmacKey::new([7; 32]), request_with_login("open sesame"));
    let sealed = seal(&true_request, &keyed);
    let hash = keyed.hash(b"login\0open sesame");
    assert_eq!(
        sealed.values.get("login").unwrap().as_str(),
        format!("[secret value login hmac-sha256:{hash}]")
    );
    assert_eq!(sealed.values.get("user").unwrap().as_str(), "anna");
    let nothing = SlotValues::default();
    assert_eq!(find_missing_values(&sealed, &nothing), ["login"]);
    let given = |value: &str| SlotValues::from([("login", value)]);
    assert_eq!(find_missing_values(&sealed, &given("open sesame")), Vec::<String>::new());
    assert_eq!(unseal(&sealed, &given("open sesame"), &keyed), Ok(true_request));
    assert_eq!(unseal(&sealed, &given("open barley"), &keyed), Err(vec!["login".to_string()]));
    assert_ne!(seal(&request_with_login("open sesame"), &HmacKey::new([8; 32])), sealed);
}

/// A record with one changed digit of the HMAC is refused.
#[test]
fn changed_seal_is_detected() {
    let (key, true_request) = ([7; 32], request_with_login("open sesame"));
    let keyed = HmacKey::new(key);
    let sealed = seal(&true_request, &keyed);
    let recorder = SourceRecorder::new(callsheet_core::Builtin);
    let composed = compose(&sealed, &recorder).unwrap();
    let rendered = render(&composed.prompt, composed.prompt.format, None).unwrap();
    let id = Id::parse("01a1e229-4e4c-75ef-8317-abb696d4e943").unwrap();
    let run = Run::new(id, "2026-01-31T12:00:00.000000Z", &sealed, &composed.prompt.recipe).unwrap();
    let made = (&composed, &rendered, None);
    let mut kept = build_record(run, &sealed, &recorder.finish(), made, &[]).unwrap();
    let hash = keyed.hash(rendered.text.as_bytes());
    kept.composed.sealed = Some(SealedText { key: Digest(key), text: hash.clone() });
    let given = SlotValues::from([("login", "open sesame")]);
    let verified = |record: &Composed| {
        verify_sealed(record, &given, &mut |digest| kept.blobs.get(&digest).cloned()).unwrap()
    };
    assert_eq!(verified(&kept.composed), ReplayOutcome::Same);
    for at in 0..hash.len() {
        let mut text = hash.clone().into_bytes();
        text[at] = if text[at] == b'0' { b'1' } else { b'0' };
        let mut other = kept.composed.clone();
        other.sealed = Some(SealedText { key: Digest(key), text: String::from_utf8(text).unwrap() });
        let found = verified(&other);
        assert!(matches!(found, ReplayOutcome::Differs { .. }), "digit {at}: {found:?}");
    }
}

/// A snapshot of redacted sources composes the same prompt without the gate.
#[test]
fn redacted_snapshot_composes_same_prompt() {
    let secret = ["ghp", "_", "wJ4kP0sXq9ZbT7mV2cR5nY8fL1dG6hK3aQu0"].concat();
    let rules = SecretRules::load_shipped().unwrap();
    let gate = Gate::new(&rules, SecretMode::Redact);
    let mut asked = Request {
        recipe: Some("layers".into()),
        instructions: Some(format!("Log in with {secret}.").into()),
        ..Request::default()
    };
    gate.scan_request(&mut asked);
    assert_eq!(asked.instructions.as_deref(), Some("Log in with [secret:github-token:1]."));
    let recorder = SourceRecorder::new(gate.wrap_sources(callsheet_core::Builtin));
    let composed = compose(&asked, &recorder).unwrap();
    let rendered = render(&composed.prompt, composed.prompt.format, None).unwrap();
    let (passed, _) = gate.judge(&asked, &composed.prompt, &rendered).unwrap();
    assert_eq!((passed.mode, passed.found.len()), (SecretMode::Redact, 1));
    assert_eq!(compose(&asked, &recorder.finish()).unwrap(), composed);
}

/// Returns a diagnostic with a text in each of its fields.
fn diagnostic_with_texts(text: &[String; 6]) -> Diagnostic {
    let place = SourceSpan { name: text[4].clone(), text: text[5].as_str().into(), range: 0..1 };
    Diagnostic {
        code: Code::RequestBad,
        severity: Severity::Error,
        message: text[0].clone(),
        place: Some(Box::new(place)),
        looked: vec![text[1].clone(), text[2].clone()],
        hints: vec![text[3].clone()],
        more: 3,
    }
}

/// A masked diagnostic contains no secret, in whichever field it was, and is otherwise the same.
#[test]
fn masked_diagnostic_contains_no_secret() {
    let rules = SecretRules::load_shipped().unwrap();
    let token = ["ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"].concat();
    let stars = "*".repeat(token.len());
    let marked = "what only the request calls a secret";
    let gate = Gate::new(&rules, SecretMode::Warn);
    let mut request = Request { secret: ["login".to_owned()].into(), ..Request::default() };
    request.values.insert("login".into(), marked.into());
    gate.scan_request(&mut request);
    for mask in 0..64_u32 {
        let texts = |secret: &str| {
            std::array::from_fn(|at| match mask & (1 << at) {
                0 => format!("place {at}"),
                _ => format!("place {at}: {secret} and more\n"),
            })
        };
        assert_eq!(
            rules.mask_diagnostic(diagnostic_with_texts(&texts(&token))),
            diagnostic_with_texts(&texts(&stars)),
            "{mask:b}"
        );
        assert_eq!(
            gate.mask_diagnostic(diagnostic_with_texts(&texts(&token))),
            diagnostic_with_texts(&texts(&stars)),
            "{mask:b}"
        );
        assert_eq!(
            gate.mask_diagnostic(diagnostic_with_texts(&texts(marked))),
            diagnostic_with_texts(&texts(&"*".repeat(marked.len()))),
            "{mask:b}"
        );
    }
}

/// A secret that a rule finds and replaces in one text must also be replaced in texts in which no rule finds
/// it.
#[test]
fn found_secret_is_replaced_everywhere() {
    let rules = SecretRules::load_shipped().unwrap();
    let gate = Gate::new(&rules, SecretMode::Redact);
    let secret = ["Xk93mQ", "pL7vR2tY8w"].concat();
    let request = serde_json::json!({
        "recipe": "layers",
        "values": { "project_name": secret },
        "documents": [{ "name": "config.toml", "content": format!("password = \"{secret}\"\n") }],
        "instructions": "Go.",
    });
    let mut request: Request = serde_json::from_value(request).unwrap();
    gate.scan_request(&mut request);
    assert_eq!(request.values.get("project_name").unwrap().as_str(), secret, "no rule finds it there");
    let kept = request.documents[0].content.as_ref().unwrap();
    assert!(!kept.contains(&secret), "{kept}");
    let prompt = compose(&request, &Builtin).unwrap().prompt;
    let rendered = render(&prompt, prompt.format, None).unwrap();
    let refused = gate.judge(&request, &prompt, &rendered).unwrap_err();
    let codes: Vec<(Code, Severity)> = refused.0.iter().map(|diag| (diag.code, diag.severity)).collect();
    assert_eq!(codes, [(Code::SecretFound, Severity::Error)], "{refused}");
    assert!(!refused.to_string().contains(&secret), "{refused}");
}

#[test]
fn address_hides_only_passwords() {
    for (address, shown) in [
        ("postgres://u:pw@h:5432/db", "postgres://u:…@h:5432/db"),
        ("postgresql://u:p%40w@h/db", "postgresql://u:…@h/db"),
        ("postgres://u:p@w/x?y@h/db", "postgres://u:…@h/db"),
        ("postgres://u@h/db?password=pw", "postgres://u@h/db?password=…"),
        (
            "postgres://h/db?sslmode=disable&password=a&b&user=u",
            "postgres://h/db?sslmode=disable&password=…&user=u",
        ),
        ("postgres://h/db?PassWord=x&sslpassword=y", "postgres://h/db?PassWord=…&sslpassword=…"),
        ("postgres://h/db?%70assword=x", "postgres://h/db?%70assword=…"),
        ("host=h password=pw dbname=d", "host=h password=… dbname=d"),
        ("host=h password = 'p w' dbname=d", "host=h password =… dbname=d"),
        ("u:pw@h/db", "u:…@h/db"),
        ("postgres://u:pw/db", "postgres://u:…"),
        ("postgres://h:5432/db", "postgres://h:5432/db"),
        ("postgres://[::1]:5432/db", "postgres://[::1]:5432/db"),
        ("postgres://u@h/db?user=me@corp", "postgres://u@h/db?user=me@corp"),
        (".callsheet/ledger.db", ".callsheet/ledger.db"),
        ("/home/a/ledger.db", "/home/a/ledger.db"),
    ] {
        assert_eq!(mask_address(address), shown);
    }
}

#[test]
fn error_text_hides_all_password_spellings() {
    let address = "postgres://u:p%40w%22x@h/db?sslpassword=other";
    let text = format!("bad `{address}`: p@w\"x, p@w\\\"x, p%40w%22x, other");
    assert_eq!(mask_address_in(&text, address), "bad `postgres://u:…@h/db?sslpassword=…`: …, …, …, …");
    assert_eq!(mask_address_in("nothing", ".callsheet/ledger.db"), "nothing");
    let text = "`postgres://u:p@h/db` and 'postgresql://h/d?password=p', not mysql:// ";
    let shown = "`postgres://u:…@h/db` and 'postgresql://h/d?password=…', not mysql:// ";
    assert_eq!(mask_addresses(text), shown);
}

/// The keys of RFC 4231 are shorter than ours; zeros follow them, as HMAC adds them itself.
#[test]
fn hmac_matches_rfc_4231_vectors() {
    let mut key = [0; 32];
    key[..20].fill(0x0b);
    let wanted = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
    assert_eq!(HmacKey::new(key).hash(b"Hi There"), wanted);
    let mut key = [0; 32];
    key[..4].copy_from_slice(b"Jefe");
    let wanted = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    assert_eq!(HmacKey::new(key).hash(b"what do ya want for nothing?"), wanted);
}
