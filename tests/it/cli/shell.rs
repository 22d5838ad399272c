//! Completions and man pages: tried where they are used.

use std::process::{Command, Output};

use super::house::House;
use crate::harness::gate::binary;

/// What a program of the machine makes of it.
fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).env("LC_ALL", "C.UTF-8").output();
    output.unwrap_or_else(|error| panic!("{program} is needed: tests/parts installs it ({error})"))
}

/// What bash offers behind these words.
fn offered(words: &[&str]) -> Vec<String> {
    let program = binary();
    let program = program.get_program().to_str().unwrap().to_owned();
    let line = words.join(" ");
    let script = format!(
        r#"source <("{program}" completions bash) && complete -p oncegate >/dev/null || exit 1
        COMP_WORDS=({line}); COMP_CWORD={last}; COMP_LINE="{line}"; COMP_POINT=${{#COMP_LINE}}
        function=$(complete -p oncegate | sed 's/.*-F \([^ ]*\).*/\1/')
        "$function" oncegate "{current}" "{before}"
        printf '%s\n' "${{COMPREPLY[@]}}""#,
        last = words.len() - 1,
        current = words.last().unwrap().trim_matches('\''),
        before = words[words.len() - 2],
    );
    let output = run("bash", &["--norc", "-c", &script]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{words:?}: {errors}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    assert_eq!(offered(&["oncegate", "sto"]), ["story"]);
    assert_eq!(offered(&["oncegate", "claims", "re"]), ["resolve"]);
    assert_eq!(offered(&["oncegate", "audit", "--fol"]), ["--follow"]);
    assert_eq!(offered(&["oncegate", "audit", "--decision", "d"]), ["denied"]);
    assert_eq!(offered(&["oncegate", "claims", "list", "--status", "un"]), ["unknown"]);
    assert_eq!(offered(&["oncegate", "completions", "zs"]), ["zsh"]);
}

#[tokio::test]
async fn every_shell_gets_its_completions() {
    let house = House::empty();
    for (shell, knows) in [
        ("zsh", "#compdef oncegate"),
        ("fish", "complete -c oncegate"),
        ("elvish", "oncegate"),
        ("powershell", "oncegate"),
    ] {
        let text = house.succeeds(&["completions", shell]);
        assert!(text.contains(knows) && text.contains("story"), "{shell}");
    }
}

#[tokio::test]
async fn the_manual_has_a_page_for_each_command_that_groff_sets_without_a_warning() {
    let house = House::empty();
    let told = house.succeeds(&["man", "man1"]);
    assert_eq!(told, "The manual is in man1: oncegate.1, and one page for each command.\n");
    let pages: Vec<_> =
        std::fs::read_dir(house.path("man1")).unwrap().flatten().map(|page| page.path()).collect();
    let names: Vec<_> =
        pages.iter().map(|page| page.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    for page in [
        "oncegate.1",
        "oncegate-audit.1",
        "oncegate-story.1",
        "oncegate-claims-resolve.1",
        "oncegate-serve.1",
    ] {
        assert!(names.contains(&page.to_owned()), "{names:?}");
    }
    for page in &pages {
        let set =
            run("groff", &["-K", "utf8", "-P", "-cbou", "-man", "-Tutf8", "-ww", page.to_str().unwrap()]);
        let errors = String::from_utf8_lossy(&set.stderr);
        assert!(set.status.success() && errors.is_empty(), "{}: {errors}", page.display());
        assert!(String::from_utf8_lossy(&set.stdout).contains("NAME"), "{}", page.display());
    }
    assert!(house.succeeds(&["man"]).contains(".TH oncegate 1"));
    house.write("file", "");
    let output = house.run(&["man", "file"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("the pages cannot be written to file: "));
}
