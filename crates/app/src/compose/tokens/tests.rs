//! Compares our counts with those of a counter that shares no code with ours, on files of every kind.

use super::*;

const FILES: usize = 1000;

/// A deterministic random number generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % sides
    }

    fn pick<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.roll(texts.len())]
    }

    fn char(&mut self, ranges: &[std::ops::RangeInclusive<u32>]) -> char {
        let range = &ranges[self.roll(ranges.len())];
        let at = range.start() + self.roll((range.end() - range.start() + 1) as usize) as u32;
        char::from_u32(at).unwrap()
    }
}

const NAMES: &[&str] =
    &["cart", "price_in_cents", "HttpServer", "i", "x1", "parseJSON", "_private", "größe", "SHOUT", "naïve"];
const OPERATORS: &[&str] =
    &[" = ", " += ", "->", " => ", "::", ".", "(", ")", " && ", "!=", "<<", ";", ", ", "?", "//", "/*"];
const LINE_ENDS: &[&str] = &["\n", "\n", "\n", "\r\n", "\n\n", " \n", "\t\n", "\n\n\n\n", "\r"];

fn push_code(dice: &mut Dice, out: &mut String) {
    let indent = dice.pick(&["", "    ", "        ", "\t", "\t\t", "   "]);
    out.push_str(indent);
    let keywords = [
        "fn ",
        "let mut ",
        "def ",
        "return ",
        "if (",
        "class ",
        "import ",
        "SELECT * FROM ",
        "# ",
        "{\"",
        "}",
    ];
    out.push_str(dice.pick(&keywords));
    for _ in 0..dice.roll(8) {
        out.push_str(dice.pick(NAMES));
        out.push_str(dice.pick(OPERATORS));
        if dice.roll(3) == 0 {
            out.push_str(&dice.roll(1_000_000_000).to_string());
        }
    }
    out.push_str(dice.pick(LINE_ENDS));
}

fn push_prose(dice: &mut Dice, out: &mut String) {
    let words = [
        "the",
        "Budget",
        "isn't",
        "they'll",
        "WE'RE",
        "it's",
        "I'm",
        "über",
        "l'été",
        "señor",
        "naïve",
        "Привет",
        "мир",
        "γεια",
        "שלום",
        "مرحبا",
        "don’t",
        "e.g.",
        "3.14",
        "1,000,000",
        "2026-11-15",
        "50%",
        "—",
        "…",
        "„gut“",
        "co-op",
        "antidisestablishmentarianism",
        "a",
        "I",
        "\u{a0}",
        "e\u{301}",
        "ﬁ",
        "İstanbul",
        "ǅ",
        "ʰ",
        "Ⅷ",
        "½",
        "²",
    ];
    for _ in 0..=dice.roll(14) {
        out.push_str(dice.pick(&words));
        out.push_str(dice.pick(&[" ", " ", " ", ", ", ". ", "  ", "; ", "! ", "?", ""]));
    }
    out.push_str(dice.pick(LINE_ENDS));
}

fn push_cjk(dice: &mut Dice, out: &mut String) {
    let ranges = [
        0x4e00..=0x9fff,
        0x3041..=0x3096,
        0x30a1..=0x30fa,
        0xac00..=0xd7a3,
        0x4e00..=0x4fff,
        0x3400..=0x4dbf,
    ];
    for _ in 0..=dice.roll(30) {
        let c = dice.char(&ranges);
        out.push(c);
        if dice.roll(8) == 0 {
            out.push_str(
                dice.pick(&[
                    "。", "、", "，", "「", "」", "　", "！", "ー", "々", " ", "12", "API", "\u{3099}",
                ]),
            );
        }
    }
    out.push_str(dice.pick(LINE_ENDS));
}

fn push_emoji(dice: &mut Dice, out: &mut String) {
    let known = ["👩‍💻", "🏳️‍🌈", "🇯🇵", "👍🏽", "1️⃣", "🦀", "👨‍👩‍👧‍👦", "❤️", "☎", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", " ", "ok", ":)", "!"];
    for _ in 0..=dice.roll(20) {
        if dice.roll(3) == 0 {
            let c = dice.char(&[0x1f300..=0x1f6ff, 0x1f900..=0x1f9ff, 0x2600..=0x27bf, 0x1f1e6..=0x1f1ff]);
            out.push(c);
        } else {
            out.push_str(dice.pick(&known));
        }
    }
    out.push_str(dice.pick(LINE_ENDS));
}

fn push_base64(dice: &mut Dice, out: &mut String) {
    let alphabet: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['+', '/']).collect();
    let width = [64, 76, 4000, 3][dice.roll(4)];
    for _ in 0..dice.roll(width) + 1 {
        out.push(alphabet[dice.roll(alphabet.len())]);
    }
    out.push_str(dice.pick(&["", "=", "==", "\n", "\r\n"]));
}

/// Strings that files of every kind contain once in a while.
const ODD: &[&str] = &[
    "<|endoftext|>",
    "<|im_start|>",
    "<|fim_prefix|>",
    "\u{feff}",
    "\0",
    "\u{200d}",
    "\u{2028}",
    "        ",
    "\t \t \n",
    "//////////",
    "==========\n/",
    "''''",
    "'S 'LL 'Ve",
    "\u{85}",
    "\u{3000}\n",
    "...\n/",
    "                                ",
];

fn generate_file(at: usize) -> String {
    let kinds = [push_code, push_prose, push_cjk, push_emoji, push_base64];
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15 ^ ((at as u64 + 1) << 20));
    let mut text = String::new();
    for _ in 0..dice.roll(80) {
        kinds[at % kinds.len()](&mut dice, &mut text);
        if dice.roll(12) == 0 {
            text.push_str(dice.pick(ODD));
        }
    }
    text
}

fn exact_counter(encoding: TokenEncoding) -> TokenCounter {
    TokenCounter(TokenizerSpec { encoding, ..TokenizerSpec::default() })
}

/// Returns the files on which `count` and the independent counter disagree.
fn find_disagreements(
    encoding: TokenEncoding,
    count: impl Fn(&str) -> usize,
) -> impl Iterator<Item = String> {
    let other = match encoding {
        TokenEncoding::Cl100kBase => bpe_openai::cl100k_base(),
        TokenEncoding::O200kBase => bpe_openai::o200k_base(),
    };
    (0..FILES).filter_map(move |at| {
        let text = generate_file(at);
        let (ours, theirs) = (count(&text), other.count(text.as_str()));
        (ours != theirs).then(|| format!("file {at}: {ours}, and the other counter says {theirs}"))
    })
}

#[test]
fn encodings_agree_with_independent_counter() {
    for encoding in [TokenEncoding::Cl100kBase, TokenEncoding::O200kBase] {
        let counter = exact_counter(encoding);
        let wrong: Vec<String> = find_disagreements(encoding, |text| counter.count(text)).collect();
        assert_eq!(wrong, Vec::<String>::new(), "{}", encoding.name());
    }
}

#[test]
fn parts_add_up_to_whole_text() {
    for encoding in [TokenEncoding::Cl100kBase, TokenEncoding::O200kBase] {
        let counter = exact_counter(encoding);
        let exactly = |text: &str| counter.count_exactly(text);
        let mut dice = Dice(1);
        for at in (0..FILES).step_by(7) {
            let text = generate_file(at);
            let counted = parts::tests::count_smallest_parts(&text, &exactly);
            assert_eq!(counted.total(), exactly(&text), "file {at}, {}", encoding.name());
            for _ in 0..4 {
                let mut ends = [dice.roll(text.len() + 1), dice.roll(text.len() + 1)];
                ends.sort_unstable();
                let [start, end] = ends.map(|end| text.floor_char_boundary(end));
                let tokens = counted.count_within(&text, start..end, &exactly);
                assert_eq!(
                    tokens,
                    exactly(&text[start..end]),
                    "file {at}, {start}..{end}, {}",
                    encoding.name()
                );
            }
        }
    }
}

#[test]
fn long_text_matches_independent_counter() {
    let all: String = (0..FILES).map(generate_file).collect();
    assert!(all.len() > 1_000_000, "long enough for many parts");
    assert_eq!(
        exact_counter(TokenEncoding::Cl100kBase).count(&all),
        bpe_openai::cl100k_base().count(all.as_str())
    );
    assert_eq!(
        exact_counter(TokenEncoding::O200kBase).count(&all),
        bpe_openai::o200k_base().count(all.as_str())
    );
}

#[test]
fn slightly_wrong_counter_is_detected() {
    let encoding = TokenEncoding::O200kBase;
    let counter = exact_counter(encoding);
    type Counter<'c> = (&'static str, &'c dyn Fn(&str) -> usize);
    let wrong_counters: [Counter<'_>; 4] = [
        ("the other vocabulary", &|text| exact_counter(TokenEncoding::Cl100kBase).count(text)),
        ("marks of a conversation are special", &|text| O200K_BASE.count_with_special_tokens(text)),
        ("line by line", &|text| text.split_inclusive('\n').map(|line| counter.count(line)).sum()),
        ("four bytes are a token", &|text| text.len().div_ceil(4)),
    ];
    for (what, count) in wrong_counters {
        assert!(find_disagreements(encoding, count).next().is_some(), "{what}");
    }
}

#[test]
fn estimate_is_rounded_up() {
    let tokens = |percent| TokenizerSpec { percent: Some(percent), ..TokenizerSpec::default() };
    assert_eq!([0, 1, 50, 100, 101].map(|all| tokens(118).scale_tokens(all)), [0, 2, 59, 118, 120]);
    assert_eq!([0, 1, 7].map(|all| tokens(100).scale_tokens(all)), [0, 1, 7]);
    assert_eq!(tokens(153).scale_tokens(usize::MAX), usize::MAX.div_ceil(100), "no overflow");
}
