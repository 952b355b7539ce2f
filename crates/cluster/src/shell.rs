//! Words of a POSIX shell.

/// The name of the shell variable that the output of [`quote`] uses. Its value must be a carriage return.
pub const CARRIAGE_RETURN: &str = "cr";

/// Writes a word so that a POSIX shell reads exactly these bytes (POSIX.1-2017, XCU 2.2.2).
///
/// A carriage return is written as `"$cr"`, because `sbatch` refuses scripts with a carriage return before a line
/// feed. A word cannot contain a zero byte, because no program argument can.
pub fn quote(word: &[u8]) -> Vec<u8> {
    if !word.is_empty() && word.iter().all(|&byte| is_plain(byte)) {
        return word.to_vec();
    }
    let mut quoted = vec![b'\''];
    for &byte in word {
        match byte {
            b'\'' => quoted.extend(br"'\''"),
            b'\r' => quoted.extend(br#"'"$cr"'"#),
            byte => quoted.push(byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// Whether a byte needs no quoting in any argument of a shell command.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_./:@%+,".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_words_stay_and_others_are_quoted() {
        for plain in ["load", "http://127.0.0.1:80/a", "-c", "50%", "a@b,c+d"] {
            assert_eq!(quote(plain.as_bytes()), plain.as_bytes());
        }
        for (word, quoted) in [
            ("", "''"),
            ("a b", "'a b'"),
            ("$(reboot)", "'$(reboot)'"),
            ("it's", r"'it'\''s'"),
            ("a\r\nb", "'a'\"$cr\"'\nb'"),
            ("~", "'~'"),
            ("A=1", "'A=1'"),
            ("#", "'#'"),
        ] {
            assert_eq!(quote(word.as_bytes()), quoted.as_bytes(), "{word:?}");
        }
        assert_eq!(quote(b"\xff"), b"'\xff'");
    }

    /// A shell reads each word back unchanged.
    #[test]
    #[expect(
        clippy::disallowed_types,
        reason = "runs the shell that reads the words"
    )]
    fn a_shell_reads_each_word_as_it_was() {
        let every_byte: Vec<u8> = (1..=255).collect();
        let words: [&[u8]; 6] = [
            &every_byte,
            b"",
            b"'",
            b"\\",
            b"\r\n",
            b"-n $HOME `id` \"x\" !! *",
        ];
        let mut script = b"cr=$(printf '\\r'); printf '%s\\0'".to_vec();
        for word in words {
            script.push(b' ');
            script.extend(quote(word));
        }
        use std::os::unix::ffi::OsStrExt as _;
        let output = std::process::Command::new("sh")
            .arg("-c")
            .arg(std::ffi::OsStr::from_bytes(&script))
            .output()
            .unwrap();
        let mut expected = Vec::new();
        for word in words {
            expected.extend(word);
            expected.push(0);
        }
        assert!(output.stdout == expected, "{output:?}");
    }
}
