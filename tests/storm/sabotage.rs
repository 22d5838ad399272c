//! Gates that are broken on purpose: the test of the checker.
//!
//! Promises: a sabotage is a patch, and is applied to a copy of the tree, never to the tree; one that does not apply any
//! more fails, and says which; one that the checker does not find within its time fails. What is built stays beside the
//! other builds, under a name of its own, so that each costs the crate alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Fallible;
use crate::options::{Options, Plan, Store};
use crate::{report, storm};

/// Those of the short form.
pub(crate) const SHORT: [&str; 3] =
    ["write-without-revision-postgres", "claim-after-forwarding", "release-on-timeout"];

/// How long a sabotaged gate may be in a storm before it must have been found.
const LIMIT: Duration = Duration::from_mins(1);

/// Where the patches are.
const PATCHES: &str = "tests/storm/sabotages";

/// Where the copy of the tree and the broken gates are.
const WORKSHOP: &str = "target/storm";

/// What the broken gate is called, and its package: cargo names what it builds by the package's name and its path in the
/// workspace, and would take a broken library for the whole one's.
const BROKEN: &str = "sabotaged";

/// The names of all of them.
pub(crate) fn all() -> Fallible<Vec<String>> {
    let files = fs::read_dir(PATCHES)?.collect::<Result<Vec<_>, _>>()?;
    let mut names: Vec<_> = files
        .iter()
        .filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".patch")?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// Builds the broken gate, and says whether the checker finds what is wrong with it.
pub(crate) async fn is_found(name: &str, options: &Options) -> Fallible<bool> {
    let patch = Path::new(PATCHES).join(name).with_extension("patch");
    let text = fs::read_to_string(&patch).map_err(|fault| format!("{}: {fault}", patch.display()))?;
    let (says, rest) = text.split_once('\n').unwrap_or_default();
    let store = if rest.starts_with("Store: sqlite") { Store::Sqlite } else { Store::Postgres };
    println!("\nsabotage {name}: {says}");
    let began = Instant::now();
    let gate = broken(name, &patch)?;
    println!("  built in {} s", began.elapsed().as_secs());
    let plan = Plan { gate, blows: LIMIT, until_found: true, ..options.plan(store, options.seed()) };
    println!("  {}", plan.headline());
    let began = Instant::now();
    let (events, verdict) = storm::run(&plan).await?;
    let Some(first) = verdict.violations.first() else {
        report::tell(&plan, &events, &verdict);
        println!("  NOT FOUND: the checker calls this gate clean.");
        return Ok(false);
    };
    println!("  found after {} s: {}: {}", began.elapsed().as_secs(), first.rule, first.says);
    Ok(true)
}

/// The gate with this patch.
fn broken(name: &str, patch: &Path) -> Fallible<PathBuf> {
    let workshop = Path::new(WORKSHOP);
    let tree = workshop.join("tree");
    lay_out(&tree)?;
    apply(patch, &tree).map_err(|fault| format!("the sabotage {name} does not apply any more: {fault}"))?;
    let mut build = Command::new("cargo");
    // With an example, the dependencies are those that every other build has: none is built for this alone.
    build.args([
        "build",
        "--locked",
        "--quiet",
        "--bin",
        BROKEN,
        "--example",
        "beside",
        "--target-dir",
        "target",
    ]);
    build.arg("--manifest-path").arg(tree.join("Cargo.toml"));
    run(&mut build).map_err(|fault| format!("the sabotage {name} does not build: {fault}"))?;
    let gate = workshop.join(name);
    fs::copy(Path::new("target/debug").join(BROKEN), &gate)?;
    Ok(gate)
}

/// Applies a patch to a copy; git must not take the repository around it for its own.
fn apply(patch: &Path, tree: &Path) -> Fallible<()> {
    let ceiling = fs::canonicalize(tree)?.join("..");
    let mut apply = Command::new("git");
    apply.args(["apply", "--whitespace=nowarn"]).arg(fs::canonicalize(patch)?);
    run(apply.current_dir(tree).env("GIT_CEILING_DIRECTORIES", fs::canonicalize(ceiling)?))
}

fn run(command: &mut Command) -> Fallible<()> {
    let ended = command.output()?;
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    if ended.status.success() { Ok(()) } else { Err(told.into()) }
}

/// The tree as it is, in a copy that has one binary and one empty example. What has not changed is left alone, so that
/// cargo does not build it again.
fn lay_out(tree: &Path) -> Fallible<()> {
    let mut manifest: toml::Table = fs::read_to_string("Cargo.toml")?.parse()?;
    manifest.remove("test");
    manifest.insert("bin".into(), target(BROKEN, "src/main.rs"));
    manifest.insert("example".into(), target("beside", "beside.rs"));
    let package = manifest.get_mut("package").and_then(toml::Value::as_table_mut).ok_or("no package")?;
    let name = package.insert("name".into(), BROKEN.into()).ok_or("no name")?;
    package.remove("readme");
    let library = manifest.get_mut("lib").and_then(toml::Value::as_table_mut).ok_or("no library")?;
    library.insert("name".into(), name.clone());
    put(&tree.join("Cargo.toml"), manifest.to_string().as_bytes())?;
    let lock = fs::read_to_string("Cargo.lock")?
        .replace(&format!("name = {name}\n"), &format!("name = \"{BROKEN}\"\n"));
    put(&tree.join("Cargo.lock"), lock.as_bytes())?;
    put(&tree.join("beside.rs"), b"//! Nothing.\nfn main() {}\n")?;
    copy(Path::new("src"), &tree.join("src"))
}

fn target(name: &str, path: &str) -> toml::Value {
    let table =
        [("name", name), ("path", path)].map(|(key, value)| (key.to_owned(), toml::Value::from(value)));
    toml::Value::Array(vec![toml::Table::from_iter(table).into()])
}

fn copy(from: &Path, to: &Path) -> Fallible<()> {
    let here = fs::read_dir(from)?.collect::<Result<Vec<_>, _>>()?;
    // What the tree has no longer would be built in.
    for old in fs::read_dir(to).into_iter().flatten().flatten() {
        if here.iter().all(|entry| entry.file_name() != old.file_name()) {
            let path = old.path();
            if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
    }
    for entry in here {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() { copy(&from, &to)? } else { put(&to, &fs::read(&from)?)? }
    }
    Ok(())
}

fn put(file: &Path, bytes: &[u8]) -> Fallible<()> {
    if fs::read(file).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    fs::create_dir_all(file.parent().ok_or("a file has a folder")?)?;
    Ok(fs::write(file, bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sabotage_applies_to_the_tree_as_it_is() {
        let names = all().unwrap();
        assert!(SHORT.iter().all(|name| names.iter().any(|one| one == name)), "{names:?}");
        for name in names {
            let patch = Path::new(PATCHES).join(&name).with_extension("patch");
            let told = run(Command::new("git").args(["apply", "--check"]).arg(patch));
            assert!(told.is_ok(), "{name} does not apply any more: {told:?}");
        }
    }
}
