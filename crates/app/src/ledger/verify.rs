//! Verifies recorded prompts, the chain of records and the heads that were kept.

use callsheet_core::diag::{Code, Diagnostic};
use callsheet_core::record::Digest;
use callsheet_store::{Head, LedgerProblem, LedgerProblemKind, VerifyReport, read_export};

use super::{HEAD_GONE, KeptHead};
use crate::compose::input_reader::open_input;
use crate::compose::secrets::read_secret_values;
use crate::error::{Result, usage_error};
use crate::project::Project;

/// What to verify.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// Runs by their names.
    pub runs: Vec<String>,
    /// Every run, and the chain of all records.
    pub all: bool,
    /// An export instead of the ledger; `-` is stdin.
    pub file: Option<String>,
    /// Every text too, and the database itself.
    pub read_data: bool,
    /// A head, `SEQ:CHAIN`, to which the ledger must still lead.
    pub head: Option<String>,
    /// Secret values, `KEY=PATH`.
    pub set_secret: Vec<String>,
    /// Secret values, `KEY=NAME` of an environment variable.
    pub set_secret_env: Vec<String>,
}

impl Project {
    /// Composes recorded prompts again from what was kept, and compares every byte. Reports every problem.
    pub fn verify(&self, options: &VerifyOptions) -> Result<VerifyReport> {
        let wanted = options.head.as_deref().map(parse_head).transpose()?;
        let ledger = match &options.file {
            Some(file) => read_export(&mut *open_input(self, file)?)?,
            None => self.read_ledger()?,
        };
        let secrets = read_secret_values(self, &options.set_secret, &options.set_secret_env)?;
        let mut ledger = ledger.with_secrets(secrets);
        // The kept head is read before the chain, so records that are appended meanwhile do not count as damage.
        let kept = if options.file.is_none() { self.kept_head()? } else { KeptHead::Unknown };
        let mut report = if options.all || options.file.is_some() {
            ledger.verify_all(options.read_data)?
        } else {
            let mut runs = Vec::new();
            for name in &options.runs {
                runs.push(self.find_run(&mut ledger, name)?.run.id);
            }
            ledger.verify(&runs)?
        };
        let mut add_damage = |place: String, what: &str| {
            let result = LedgerProblemKind::Damaged;
            report.problems.push(LedgerProblem { result, place, what: what.into() });
        };
        let kept = match kept {
            KeptHead::Head(head) => Some(head),
            KeptHead::Unknown => None,
            KeptHead::Gone => {
                add_damage("head".into(), HEAD_GONE);
                None
            }
        };
        for wanted in wanted.into_iter().chain(kept) {
            if !ledger.has_link(&wanted)? {
                let place = format!("head {}:{}", wanted.seq, wanted.chain);
                add_damage(place, "the ledger no longer leads to this head");
            }
        }
        Ok(report)
    }
}

fn parse_head(text: &str) -> Result<Head> {
    let parsed = text
        .split_once(':')
        .and_then(|(seq, chain)| Some(Head { seq: seq.parse().ok()?, chain: Digest::parse(chain)? }));
    Ok(parsed.ok_or_else(|| usage_error(format!("`{text}` is not SEQ:CHAIN")))?)
}

/// Returns the code of a problem.
pub fn problem_code(kind: LedgerProblemKind) -> Code {
    match kind {
        LedgerProblemKind::Damaged => Code::LedgerDamaged,
        LedgerProblemKind::Differs => Code::VerifyMismatch,
        LedgerProblemKind::OtherEngine => Code::VerifyEngine,
        LedgerProblemKind::NeedsSecret => Code::VerifySecret,
    }
}

/// Converts a problem into a diagnostic.
pub fn problem_diag(problem: &LedgerProblem) -> Diagnostic {
    Diagnostic::error(problem_code(problem.result), problem.to_string())
}
