//! Python with packages that `./test` installs to `target/tools/python`.

use std::process::Command;

/// Runs a script that needs a package from outside the standard library; returns its output.
///
/// The interpreter is `FATHOMETER_PYTHON`, else `python3`. If the script fails, most likely because the package is
/// missing or too old, the result is `None`, with a message on stderr. If `FATHOMETER_REQUIRE_` with the package's
/// name in capitals is 1, the test fails instead.
pub fn python(package: &str, script: &str, arguments: &[&str]) -> Option<String> {
    let program = std::env::var_os("FATHOMETER_PYTHON").unwrap_or("python3".into());
    let output = Command::new(program)
        .args(["-c", script])
        .args(arguments)
        .output();
    let why = match output {
        Ok(output) if output.status.success() => {
            return Some(String::from_utf8(output.stdout).expect("Python prints UTF-8"));
        }
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    let variable = format!("FATHOMETER_REQUIRE_{}", package.to_uppercase());
    let required = std::env::var_os(variable).is_some_and(|value| value == "1");
    assert!(!required, "the comparison by {package} failed: {why}");
    let why = why.lines().last().unwrap_or_default();
    eprintln!(
        "SKIPPED: no {package} to compare with ({why}): run ./test, or pip install {package}"
    );
    None
}
