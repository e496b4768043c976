//! Tests questions: an agent's question to the person is found anywhere in a reply, and nothing else is a
//! question.

use callsheet_core::library::agent::OutputSpec;
use callsheet_core::reply::{Outcome, ReplyContext, read};
use callsheet_core::{Builtin, Library, find_contract};

const QUESTION: &str = "<question>Which one?</question>";

fn read_questions(reply: &str, prompt: Option<&str>) -> (Vec<String>, Outcome) {
    let contract = find_contract(&Library::new(&Builtin), "review", &Default::default()).unwrap().1;
    let asked = ReplyContext { contract: &contract, tasks: &[], prompt };
    let reply = read(&asked, reply.as_bytes(), &OutputSpec::default());
    (reply.questions, reply.outcome)
}

/// Places in which text does not count.
const HIDDEN: [&str; 15] = [
    "```\n{}\n```\n",
    "~~~markdown\n{}\n~~~\n",
    "- An entry\n\n  ```\n  {}\n  ```\n",
    "```\n{}\n",
    "    {}\n",
    "\n\t{}\n",
    "Ask with `{}` then.\n",
    "``{}``\n",
    "> {}\n",
    "> A quote\n{}\n",
    "- > {}\n",
    "<thought>{}</thought>\n",
    "<thought>\n\n{}\n\n</thought>\n",
    "<think>Perhaps {}\n",
    "<thinking>\n> {}\n</thinking>\n",
];

#[test]
fn hidden_question_is_ignored() {
    for place in HIDDEN {
        for question in [QUESTION, "<QUESTION >Which one?</ Question>", "<question>Is `a` < `b`?</question>"]
        {
            for around in ["{}", "Words.\n\n{}\n\nWords.\n", "<review>PASS</review>\n\n{}"] {
                let reply = around.replace("{}", &place.replace("{}", question));
                assert_eq!(read_questions(&reply, None).0, [""; 0], "{reply:?}");
            }
        }
    }
}

#[test]
fn incomplete_question_is_ignored() {
    for reply in [
        "<question>QUESTION</question>\n",
        "Ask with <question>QUESTION</question>.\n",
        "<question></question>\n",
        "<question> \n </question>\n",
        "<question>Which one?\n",
        "Which one?</question>\n",
        "<question/>\n",
        "<questions>Which one?</questions>\n",
        "<question kind=\"x\">Which one?\n",
        "&lt;question&gt;Which one?&lt;/question&gt;\n",
    ] {
        assert_eq!(read_questions(reply, None).0, [""; 0], "{reply:?}");
    }
}

#[test]
fn echoed_question_is_ignored() {
    let prompt = "Earlier it was asked:\n\n<question>Which one?</question>\n\nThe answer was: the first.\n\n\
                  If you ask <question>Which one?</question> again, nobody answers.\n";
    for echo in [prompt, "If you ask <question>Which one?</question> again, nobody answers.\n"] {
        assert_eq!(read_questions(echo, Some(prompt)).0, [""; 0], "{echo:?}");
        assert_ne!(read_questions(echo, None).0, [""; 0], "{echo:?}");
    }
    // The same question without the surrounding text of the prompt counts.
    assert_eq!(read_questions(QUESTION, Some(prompt)).0, ["Which one?"]);
}

#[test]
fn question_is_found_in_any_reply() {
    for (reply, question) in [
        ("{}", "Which one?"),
        ("Words.\n\n{}\n", "Which one?"),
        ("- {}\n", "Which one?"),
        ("**{}**\n", "Which one?"),
        ("<response>\n{}\n</response>\n", "Which one?"),
        ("I ask {} and wait.\n", "Which one?"),
        ("```\ncode\n```\n\n{}\n", "Which one?"),
        ("<thought>{}</thought>\n\n{}\n", "Which one?"),
        ("{}\n\n{}\n", "Which one?"),
        ("<question>\nWhich\none?\n</question>\n", "Which\none?"),
        (
            "<question>Which one?\n\nThe first, or\n\n- the second</question>\n",
            "Which one?\n\nThe first, or\n\n- the second",
        ),
        ("<question>Vec<u8> or &str?</question>\n", "Vec<u8> or &str?"),
    ] {
        let reply = reply.replace("{}", QUESTION);
        assert_eq!(read_questions(&reply, None).0, [question], "{reply:?}");
        for verdict in ["PASS", "NEEDS_CHANGES", "MAJOR_ISSUES"] {
            for both in [
                format!("{reply}\n\n<review>{verdict}</review>\n"),
                format!("<review>{verdict}</review>\n\n{reply}"),
            ] {
                assert_eq!(read_questions(&both, None).0, [question], "{both:?}");
            }
        }
    }
    assert_eq!(
        read_questions("<review>PASS</review>\n\n<question>Which one?</question>\n", None).1,
        Outcome::Pass
    );
    let several: String = (0..30).map(|number| format!("<question>Which {number}?</question>\n\n")).collect();
    assert_eq!(read_questions(&several, None).0.len(), 20);
}

/// Many questions and long questions are read fast.
#[test]
fn many_questions_are_read_fast() {
    for part in
        ["<question>", "<question>a</question>", "</question>", "<question>< < < <", "<question>a\n\n"]
    {
        let reply = part.repeat(200_000);
        assert!(read_questions(&reply, Some(&reply)).0.len() <= 20, "{part}");
    }
}
