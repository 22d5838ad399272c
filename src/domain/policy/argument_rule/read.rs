//! From a rule's text to its [`Term`].
//!
//! Promises: what a rule must not have is said with its place; a text that could exhaust the reader's stack is not given
//! to it. Sorts that are known beforehand are checked here, so that a rule that could never be true is a mistake.

mod reader;

use cel::common::ast::{Expr, IdedExpr};
use cel::parser::{ParseErrors, Parser};

use self::reader::Reader;
use super::term::Term;
use super::{MOST_BRACKETS, MOST_BYTES};

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::domain::policy) struct Fault {
    /// At which byte of its text.
    pub(in crate::domain::policy) at: usize,
    /// What.
    pub(in crate::domain::policy) message: String,
    /// How it may be put right.
    pub(in crate::domain::policy) help: Option<String>,
}

/// How deep a rule may nest: whatever reads or evaluates it recurses.
const MOST_LEVELS: usize = 64;

/// What the parser has for itself: it needs up to 16 KiB for a bracket.
const STACK_BYTES: usize = 16 << 20;

/// Ways into the arguments, and where in the text they stand.
type Ways = Vec<(Vec<String>, usize)>;

/// The term that a text writes, and the ways into the arguments that it looks at.
pub(super) fn read(text: &str) -> Result<(Term, Ways), Fault> {
    let fault = |at, message: String, help: &str| Fault { at, message, help: Some(help.to_owned()) };
    if text.len() > MOST_BYTES {
        let message = format!("a rule has {MOST_BYTES} bytes at most");
        return Err(fault(0, message, "what is longer belongs into the app"));
    }
    let mut brackets = text.char_indices().filter(|(_, letter)| "([{?".contains(*letter));
    if let Some((at, _)) = brackets.nth(MOST_BRACKETS) {
        let message = format!("a rule has {MOST_BRACKETS} brackets and question marks at most");
        return Err(fault(at, message, "say it with fewer of them"));
    }
    // The parser is somebody else's, and recurses as deep as a text makes it.
    std::thread::scope(|scope| {
        let reading = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, || parse(text));
        reading.ok()?.join().ok()
    })
    .unwrap_or_else(|| Err(unreadable()))
}

fn unreadable() -> Fault {
    let help = "it is to be an expression of CEL".to_owned();
    Fault { at: 0, message: "it cannot be read".to_owned(), help: Some(help) }
}

fn parse(text: &str) -> Result<(Term, Ways), Fault> {
    let parsed = Parser::new().parse_with_source_info(text);
    let (expression, source) =
        parsed.map_err(|errors| of_parser(text, &errors).unwrap_or_else(unreadable))?;
    if !is_flatter(&expression, MOST_LEVELS) {
        let message = format!("a rule nests {MOST_LEVELS} levels deep at most");
        return Err(Fault { at: 0, message, help: Some("say it in fewer steps".to_owned()) });
    }
    Reader::read(&expression, source)
}

/// What the parser complained about first, in this house's words.
fn of_parser(text: &str, errors: &ParseErrors) -> Option<Fault> {
    let error = errors.errors.first()?;
    let line_start: usize =
        text.split_inclusive('\n').take(usize::try_from(error.pos.0 - 1).unwrap_or(0)).map(str::len).sum();
    let at = (line_start + usize::try_from(error.pos.1 - 1).unwrap_or(0)).min(text.len());
    let said = error.msg.trim_start_matches("Syntax error: ");
    let word = said.split('\'').nth(1).unwrap_or_default();
    let message = if text.trim().is_empty() {
        "a rule says something".to_owned()
    } else if said.starts_with("mismatched input '<EOF>'") || word == "<EOF>" {
        "the expression breaks off".to_owned()
    } else if ["extraneous input", "mismatched input", "no viable alternative", "token recognition"]
        .iter()
        .any(|what| said.starts_with(what))
    {
        format!("\"{word}\" cannot stand here")
    } else if said == "invalid int literal" {
        "a whole number of more than 64 bits is written with its point: \"18446744073709551616.0\"".to_owned()
    } else {
        said.lines().next().unwrap_or_default().to_owned()
    };
    let help = "a rule is an expression of CEL: \"args.amount_cents <= 50000\"";
    Some(Fault { at, message, help: Some(help.to_owned()) })
}

/// Whether an expression nests no deeper than this.
fn is_flatter(expression: &IdedExpr, levels: usize) -> bool {
    let Some(inner) = levels.checked_sub(1) else { return false };
    match &expression.expr {
        Expr::Call(call) => call.args.iter().chain(call.target.as_deref()).all(|one| is_flatter(one, inner)),
        Expr::Select(select) => is_flatter(&select.operand, inner),
        Expr::List(list) => list.elements.iter().all(|one| is_flatter(one, inner)),
        // Some of these are refused, whatever is in them.
        Expr::Comprehension(_)
        | Expr::Map(_)
        | Expr::Struct(_)
        | Expr::Ident(_)
        | Expr::Literal(_)
        | Expr::Unspecified => true,
    }
}
