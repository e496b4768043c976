//! Findings of a review: their ids, titles and severities in every form that reviewers write.

use callsheet_core::flow::{FindingNumbering, has_severe, parse_findings};

fn number_review(text: &str) -> String {
    FindingNumbering::new(2).number(text, true)
}

fn titles(text: &str) -> Vec<String> {
    parse_findings(text).into_iter().map(|finding| format!("{} {}", finding.id, finding.title)).collect()
}

/// A finding gets an id and a title in every form of list.
#[test]
fn finding_in_any_form_gets_id() {
    let cases: [(&str, &[&str]); 15] = [
        ("## Findings\n\n- HIGH: no label\n  - Where: x\n- LOW: typo\n", &["HIGH: no label", "LOW: typo"]),
        ("Findings:\n\n1. No label.\n2. Leaks.\n", &["No label.", "Leaks."]),
        ("**Findings:**\n\n- [ ] No label.\n\n  More.\n\n- [ ] Leaks.\n", &["No label.", "Leaks."]),
        ("Finding: no label.\n\nFinding: leaks.\n", &["no label.", "leaks."]),
        ("## HIGH: no label\n\nx\n\n## LOW: leaks\n\ny\n", &["HIGH: no label", "LOW: leaks"]),
        ("## Findings\n\n## HIGH: no label\n\n## LOW: leaks\n", &["HIGH: no label", "LOW: leaks"]),
        (
            "## Findings\n\n| # | severity | finding |\n|---|---|---|\n| 1 | high | no label |\n| 2 | low | leaks |\n",
            &["high – no label", "low – leaks"],
        ),
        ("- **high** Still leaks.\n- **low** A typo.\n", &["**high** Still leaks.", "**low** A typo."]),
        ("I want:\n\n- a label\n- no leak\n\n<review>NEEDS_CHANGES</review>\n", &["a label", "no leak"]),
        ("# Findings\n\n#### 1. No label\n\n##### How\n\n#### 2. Leaks\n", &["No label", "Leaks"]),
        ("## Findings (2)\n\n### High\n\n- No label\n- Leaks\n\n### Low\n\nNone.\n", &["No label", "Leaks"]),
        ("## Findings\n\nHIGH: no label\n\nText.\n\nLOW - leaks\n", &["HIGH: no label", "LOW - leaks"]),
        ("R1.1 is fixed.\n\nFinding 1: leaks.\n", &["leaks."]),
        (
            "## Findings\n\n- No high contrast\n- None of it works\n- No open handler\n- No findings in tests.\n- None.\n",
            &["No high contrast", "None of it works", "No open handler", "No findings in tests."],
        ),
        (
            "## Findings\n\n### Finding 1\n\nSeverity: high\n\nNo label.\n\n### Finding 2\n",
            &["No label.", ""],
        ),
    ];
    for (review, expected) in cases {
        let text = number_review(review);
        let expected = expected.iter().enumerate().map(|(nth, title)| format!("R2.{} {title}", nth + 1));
        assert_eq!(titles(&text), expected.collect::<Vec<_>>(), "{text}");
        assert_eq!(number_review(&text), text);
    }
    assert_eq!(number_review("- **high** Leaks.\n"), "- R2.1 **high** Leaks.\n");
    assert_eq!(
        number_review("## Findings\n\n| # | finding |\n|--|--|\n| 1 | no label |\n"),
        "## Findings\n\n| # | finding |\n|--|--|\n| R2.1 | no label |\n"
    );
    // Several reviews in one text, as `collect` writes them.
    let both = "## expert\n\n- R2.1 **high** Leaks.\n\n## logic\n\n## Summary\n\nR1.1 is fixed.\n\n## Findings\n\n\
                ### R2.2 A name\n\n## quality\n\n## Findings\n\n### R2.3\n\nA word.\n";
    assert_eq!(titles(both), ["R2.1 **high** Leaks.", "R2.2 A name", "R2.3 A word."]);
    // A review that passes and has no section has no findings.
    assert_eq!(FindingNumbering::new(1).number("- All fine.\n", false), "- All fine.\n");
}

/// A severity counts only if it is given as a severity.
#[test]
fn severity_counts_only_if_stated() {
    for review in [
        "## Findings\n\n- HIGH: no label\n",
        "## Findings\n\n### CRITICAL: no label\n",
        "## Findings\n\n### 1. No label\n\n**Severity:** high\n",
        "## Findings\n\n### 1. No label\n\n- Severity: High\n",
        "## Findings\n\n### 1. No label\n\n- **Severity**: `high`\n",
        "## Findings\n\n1. [high] No label\n",
        "## Findings\n\n| # | severity | finding |\n|---|---|---|\n| 1 | high | no label |\n",
        "The form has no label.\nSeverity: critical\n",
        "- Severity: critical. The form has no label.\n",
        "No label. Severity: High\n",
        "## HIGH: no label\n",
        "HIGH: no label\n",
        "**[Critical]** no label\n",
        "- **High** – no label\n",
        "- high: no label\n",
        "- High severity: no label\n",
        "1. **HIGH**: none of the inputs is checked\n",
        "- 🔴 HIGH No label\n",
        "### High\n\n- No label\n",
        "## Earlier findings\n\n- R1.1 LOW: fixed\n\n## Findings\n\n- R1.2 HIGH: not fixed\n",
        "| Severity | Count |\n|---|---|\n| High | 2 |\n",
        "1. No label\n    - Severity: high\n",
    ] {
        assert!(has_severe(review), "{review}");
    }
    for review in [
        "There are no HIGH findings. Quality is high.\n\n## Findings\n\n### 1. LOW high contrast is missing\n",
        "No high or critical findings.\n",
        "- No high or critical findings.\n",
        "High-level design is fine.\n",
        "- High-level design is fine.\n- HIGH-level too\n",
        "HIGH: none\n",
        "- HIGH: none\n- Critical: 0\n- **High:** None found.\n- HIGH or CRITICAL findings: none\n",
        "- High: 0, Medium: 2\n- HIGH: no findings\n- High: n/a\n- 0 HIGH findings\n",
        "### High\n\nNone.\n\n### Critical (0)\n\n### Low\n\n- A typo\n",
        "## Findings\n\n```\n- HIGH: no label\nSeverity: high\n```\n\n> HIGH: no label\n> Severity: high\nmore\n",
        "Text.\n\n    HIGH: no label\n\n<!-- HIGH: no label -->\n\n- `HIGH: x`\n",
        "- High contrast is there.\n- high quality\n- Highlight: x\n",
        "## Earlier findings\n\n### 1. HIGH Settled\n\nSeverity: high\n\n## Findings\n\nNone.\n",
        "- R1.1 (HIGH): resolved in form.txt\n",
        "| Severity | Count |\n|---|---|\n| High | 0 |\n| Critical | none |\n",
        "## Requirements\n\n| what | priority | met |\n|---|---|---|\n| login | high | yes |\n\n## Findings\n\nNone.\n",
        "There is no finding of severity: high.\nSeverity scale: critical, high\nSeverity: low\n",
        "### 1. (HIGH, MEDIUM or LOW) (the problem in one line)\n",
    ] {
        assert!(!has_severe(review), "{review}");
    }
}

#[test]
fn findings_get_ids_in_order() {
    let review = "# Review\n\n## Findings\n\n### 1. HIGH No label\n\nText.\n\n```\n### 2. In code\n```\n\n\
                  ### Finding 7\n\n### (LOW) A name\n\n## Questions\n\n### Not one\n";
    let expected = "# Review\n\n## Findings\n\n### R2.1 HIGH No label\n\nText.\n\n```\n### 2. In code\n```\n\n\
                    ### R2.2\n\n### R2.3 (LOW) A name\n\n## Questions\n\n### Not one\n";
    assert_eq!(number_review(review), expected);
    assert_eq!(number_review(expected), expected);
    let ids: Vec<(String, String)> =
        parse_findings(expected).into_iter().map(|finding| (finding.id, finding.title)).collect();
    let pair = |id: &str, title: &str| (id.to_string(), title.to_string());
    assert_eq!(ids, [pair("R2.1", "HIGH No label"), pair("R2.2", ""), pair("R2.3", "(LOW) A name")]);
    // The id of an earlier round stays as part of the words.
    assert_eq!(
        number_review("## Findings\n\n### R1.1 Still open"),
        "## Findings\n\n### R2.1 R1.1 Still open"
    );
    assert_eq!(
        number_review("## Findings\n\n### 3 files are gone"),
        "## Findings\n\n### R2.1 3 files are gone"
    );
}

#[test]
fn review_asking_for_changes_has_finding() {
    assert_eq!(number_review("No label.\n"), "## Findings\n\n### R2.1\n\nNo label.\n");
    let words = "Seen.\n\n## Findings\n\nNo label.\n\n- Where: form.txt\n\n### Details\n";
    let words = words.replace("### Details", "See above.");
    let expected = "Seen.\n\n## Findings\n\n### R2.1\n\nNo label.\n\n- Where: form.txt\n\nSee above.\n";
    assert_eq!(number_review(&words), expected);
    assert_eq!(number_review(expected), expected);
    let prose = "Bad.\n\n### How\n\nSo.\n";
    assert_eq!(number_review(prose), "## Findings\n\n### R2.1\n\nBad.\n\n### How\n\nSo.\n");
    assert_eq!(number_review(&number_review(prose)), number_review(prose));
    assert_eq!(titles(&number_review(prose)), ["R2.1 Bad."]);
    let rated = "- Severity: critical. No label.\n\n<review>PASS</review>\n";
    assert_eq!(titles(&number_review(rated)), ["R2.1 Severity: critical. No label."]);
    assert_eq!(FindingNumbering::new(2).number("Fine.\n", false), "Fine.\n");
    assert_eq!(number_review(" \n"), " \n");
}

#[test]
fn severe_finding_prevents_pass() {
    let severe = |heading: &str| has_severe(&format!("## Findings\n\n### {heading}\n"));
    for heading in [
        "1. HIGH No label",
        "(HIGH) x",
        "R1.1 CRITICAL: x",
        "**HIGH** x",
        "Finding 1: HIGH",
        "1. (CRITICAL) x",
    ] {
        assert!(severe(heading), "{heading}");
    }
    for heading in ["1. LOW The HIGH bit", "MEDIUM x", "Highlight", "x HIGH", ""] {
        assert!(!severe(heading), "{heading}");
    }
    assert!(!has_severe("## Earlier findings\n\n### 1. HIGH Settled\n"));
}
