//! With the feature `off`, spans compile to nothing: the same function with and
//! without them is the same machine code.

use std::{path::PathBuf, process::Command};

/// Compiles `spanned.rs` with optimisation and returns the assembly.
fn assembly(features: &str) -> String {
    // A file for each: what cargo finds up to date it does not write again.
    let name = format!("spanned-{}.s", features.replace(',', "-"));
    let output = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let compiled = Command::new(env!("CARGO"))
        .args(["rustc", "--quiet", "--offline", "--package", "ringscope", "--test", "spanned"])
        .args(["--features", features, "--", "-C", "codegen-units=1", "--emit"])
        .arg(format!("asm={}", output.display()))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        // Only this package is optimised anew; its dependencies are the ones already built.
        .env("CARGO_PROFILE_TEST_OPT_LEVEL", "3")
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "3")
        .status()
        .expect("cargo runs");
    assert!(compiled.success(), "spanned.rs does not compile with `{features}`");
    std::fs::read_to_string(output).expect("the assembly is there")
}

/// The instructions of a function, without labels and directives; its name's
/// own appearances are left out, so that two functions can be compared.
fn instructions(assembly: &str, function: &str) -> Vec<String> {
    let own_label = format!("{function}:");
    assembly
        .lines()
        .skip_while(|line| *line != own_label)
        .skip(1)
        .take_while(|line| !line.starts_with(".Lfunc_end"))
        .map(str::trim)
        .filter(|line| !line.starts_with(['.', '#']) && !line.is_empty())
        .map(|line| line.split_whitespace().map(without_label_number).collect::<Vec<_>>().join(" "))
        .collect()
}

/// `.LBB12_3` differs from function to function in its first number only.
fn without_label_number(word: &str) -> String {
    match word.split_once(".LBB").map(|(before, label)| (before, label.split_once('_'))) {
        Some((before, Some((_, rest)))) => format!("{before}.LBB_{rest}"),
        _ => word.to_owned(),
    }
}

/// Identical functions may have been merged into one by the compiler.
fn are_merged(assembly: &str) -> bool {
    assembly.lines().any(|line| matches!(line.trim(), "spanned = bare" | ".set spanned, bare"))
}

#[test]
fn a_function_with_spans_is_the_same_machine_code_when_off() {
    let off = assembly("off,code-comparison");
    assert!(off.contains("\nbare:"), "the function to compare with is there");
    assert!(
        are_merged(&off) || instructions(&off, "spanned") == instructions(&off, "bare"),
        "spans left something behind:\n{:#?}",
        instructions(&off, "spanned")
    );
    // And the comparison does see spans where there are some.
    let on = assembly("code-comparison");
    assert_ne!(instructions(&on, "spanned"), instructions(&on, "bare"));
}
