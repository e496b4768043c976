//! `callsheet export`: writes a file that can be verified without the ledger that it came from.

use std::fs::Permissions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use callsheet_core::diag::{Code, Diagnostic, Diagnostics};
use callsheet_store::{ExportScope, Ledger, LedgerError, export, in_toto_statement};
use tempfile::NamedTempFile;

use crate::context::CommandContext;
use callsheet::error::CommandResult;
use callsheet::session::write::{check_stays_inside, resolve_output};

/// Write recorded runs with everything that they need into one file, one JSON object per line
///
/// `verify --file` proves it on any machine, `import` adds it to another ledger.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A run's id, the beginning of one, last, or last~N for earlier ones
    #[arg(required_unless_present = "all")]
    run: Option<String>,
    /// The whole ledger
    #[arg(long, conflicts_with = "run")]
    all: bool,
    /// Write to a file, which only its owner can read, instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The prompt's digest and what it was made of as an in-toto statement instead; without any text
    #[arg(long, conflicts_with = "all")]
    in_toto: bool,
}

pub(crate) fn run(app: &CommandContext, args: &Args) -> CommandResult {
    let out = resolve_output(&app.here, args.out.as_deref())?;
    let mut ledger = app.read_ledger()?;
    let scope = match &args.run {
        Some(name) => ExportScope::Run(app.find_run(&mut ledger, name)?.run.id),
        None => ExportScope::All,
    };
    match out {
        Some(out) => {
            let folder = out.parent().unwrap_or(Path::new("."));
            let real = folder.canonicalize().map_err(|error| write_error(&error))?;
            check_stays_inside(&app.dir, &out, &real)?;
            let (folder, out) = (real.as_path(), real.join(out.file_name().unwrap_or_default()));
            let mut file = NamedTempFile::new_in(folder).map_err(|error| write_error(&error))?;
            let mut buffer = BufWriter::new(file.as_file_mut());
            write_export(&mut ledger, &scope, args.in_toto, &mut buffer)?;
            drop(buffer);
            let private = file.as_file().set_permissions(Permissions::from_mode(0o600));
            private.map_err(|error| write_error(&error))?;
            file.as_file().sync_all().map_err(|error| write_error(&error))?;
            file.persist(&out).map_err(|error| write_error(&error.error))?;
        }
        None => {
            let mut out = PipeTolerantWriter(app.print.stdout_writer());
            write_export(&mut ledger, &scope, args.in_toto, &mut out)?;
        }
    }
    Ok(0)
}

fn write_export(
    ledger: &mut Ledger,
    scope: &ExportScope,
    in_toto: bool,
    out: &mut dyn Write,
) -> Result<(), LedgerError> {
    match scope {
        ExportScope::Run(run) if in_toto => {
            let text = format!("{}\n", in_toto_statement(ledger, run)?);
            out.write_all(text.as_bytes())
                .and_then(|()| out.flush())
                .map_err(|error| LedgerError::Failed(error.to_string()))
        }
        scope => export(ledger, scope, out),
    }
}

/// Writer that ignores a broken pipe: a reader that stops early is not an error.
struct PipeTolerantWriter<W>(W);

impl<W: Write> Write for PipeTolerantWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            done => done,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            done => done,
        }
    }
}

fn write_error(error: &io::Error) -> Diagnostics {
    Diagnostic::error(Code::OutputFailed, format!("the export could not be written: {error}")).into()
}
