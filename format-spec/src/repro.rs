//! Scripts that repeat a failure: from the fields that VOCABULARY.md has for
//! errors (`library`, `module`, `function`, `arguments`), text in and text out.
//!
//! What comes from a trace is data, never code: texts become literals of the
//! script's language, lines of comments can not be left, and the first lines, where an
//! interpreter looks for orders in comments too, are the same in every script.

mod json;

use std::fmt::Write;

use serde_json::Value;

use json::Json;

/// Before any text of a trace: Python takes `coding=` in a comment of its first two lines
/// for the encoding of the whole, and some encodings make a new line of harmless letters.
const PYTHON_BEGINS: &str = "#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\n";

/// In which language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Imports the module and calls the function.
    Python,
    /// Runs the library as a program: module and function are its first words.
    Shell,
}

/// What is known of a failure.
#[derive(Clone, Debug, Default)]
pub struct Failure {
    /// For the script's comment: which error, when, where.
    pub about: Vec<String>,
    /// The library as it is imported, or the program.
    pub library: Option<String>,
    /// Where the function is within the library.
    pub module: Option<String>,
    /// What was called.
    pub function: Option<String>,
    /// Its arguments, as JSON: an array of them, an object of named ones, or
    /// `{"args": [...], "kwargs": {...}}` for both. They come to the function as they are
    /// written here: every digit, and keys in their order. `NaN` and `Infinity` are Python's.
    pub arguments: Option<String>,
}

impl Failure {
    /// The script.
    ///
    /// # Errors
    ///
    /// What is missing or wrong, and what would help.
    pub fn script(&self, language: Language) -> Result<String, String> {
        let arguments = self.arguments()?;
        match language {
            Language::Python => self.python(&arguments),
            Language::Shell => self.shell(&arguments),
        }
    }

    fn arguments(&self) -> Result<Arguments<'_>, String> {
        let text = self.arguments.as_deref().map(str::trim).filter(|text| !text.is_empty());
        let Some(text) = text else { return Ok(Arguments::default()) };
        Arguments::of(text).map_err(|why| {
            format!(
                "its field `arguments` is not JSON: {why}; it may have been cut, as texts of \
                 more than 64 KiB are"
            )
        })
    }

    fn python(&self, arguments: &Arguments<'_>) -> Result<String, String> {
        let function = self.function.as_deref().filter(|name| !name.is_empty());
        let function = function.ok_or("it has no field `function`, so there is nothing to call")?;
        let mut script = String::from(PYTHON_BEGINS);
        self.comment(&mut script);
        let list = format!("[{}]", arguments.list.join(", "));
        let named: Vec<String> =
            arguments.named.iter().map(|(key, value)| format!("{key}: {value}")).collect();
        let named = format!("{{{}}}", named.join(", "));
        // A JSON string is a Python string: it knows no escape that Python does not.
        let literal = |text: &str| Value::from(text).to_string();
        let _ = write!(
            script,
            "import functools\nimport importlib\nimport json\n\n\
             module = importlib.import_module({})\n\
             function = functools.reduce(getattr, {}.split(\".\"), module)\n\
             arguments = json.loads({})\n\
             named = json.loads({})\n\
             print(repr(function(*arguments, **named)))\n",
            literal(&self.python_module()),
            literal(function),
            literal(&list),
            literal(&named),
        );
        Ok(script)
    }

    /// `library.module`, either alone, or Python's own functions.
    fn python_module(&self) -> String {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        match (given(&self.library), given(&self.module)) {
            (Some(library), Some(module)) => {
                let within = module.strip_prefix(&library);
                let is_whole = within.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
                if is_whole { module } else { format!("{library}.{module}") }
            }
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => "builtins".to_owned(),
        }
    }

    fn shell(&self, arguments: &Arguments<'_>) -> Result<String, String> {
        let words = [&self.library, &self.module, &self.function];
        let mut words: Vec<String> =
            words.into_iter().flatten().filter(|word| !word.is_empty()).cloned().collect();
        if words.is_empty() {
            return Err("it has none of the fields `library`, `module` and `function`, so there \
                        is nothing to run"
                .to_owned());
        }
        // Shells differ in whether `exec --` ends its options.
        if words[0].starts_with('-') {
            return Err("its program's name begins with a dash, which a shell takes for an option"
                .to_owned());
        }
        for value in &arguments.list {
            words.push(plain(value)?);
        }
        for (key, value) in &arguments.named {
            let key = plain(key)?;
            match *value {
                "true" => words.push(format!("--{key}")),
                "false" | "null" => {}
                value => words.push(format!("--{key}={}", plain(value)?)),
            }
        }
        if words.iter().any(|word| word.contains('\0')) {
            return Err(
                "a word of its command has a zero byte, which no command line can hold".to_owned()
            );
        }
        let mut script = String::from("#!/bin/sh\n");
        self.comment(&mut script);
        let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let _ = writeln!(script, "exec {}", quoted.join(" "));
        Ok(script)
    }

    fn comment(&self, script: &mut String) {
        for line in self.about.iter().flat_map(|text| text.lines()) {
            let harmless: String =
                line.chars().map(|c| if ends_a_line(c) { ' ' } else { c }).collect();
            let _ = writeln!(script, "# {harmless}");
        }
        script.push('\n');
    }
}

/// Texts of JSON; keys have their quotes.
#[derive(Debug, Default)]
struct Arguments<'a> {
    list: Vec<&'a str>,
    named: Vec<(&'a str, &'a str)>,
}

impl<'a> Arguments<'a> {
    fn of(text: &'a str) -> Result<Self, String> {
        let named = match json::parse(text)? {
            Json::Array(list) => return Ok(Self { list, named: Vec::new() }),
            Json::Single(one) => return Ok(Self { list: vec![one], named: Vec::new() }),
            Json::Object(named) => named,
        };
        let is_both = |(key, _): &(&str, &str)| matches!(*key, "\"args\"" | "\"kwargs\"");
        if named.is_empty() || !named.iter().all(is_both) {
            return Ok(Self { list: Vec::new(), named });
        }
        let mut both = Self::default();
        for (key, value) in named {
            match (key, json::parse(value)?) {
                ("\"args\"", Json::Array(list)) => both.list = list,
                ("\"args\"", _) => both.list = vec![value],
                (_, Json::Object(named)) => both.named = named,
                (_, _) => both.named = Vec::new(),
            }
        }
        Ok(both)
    }
}

/// Whatever some interpreter might take for the end of a comment.
fn ends_a_line(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

/// A text as it is, everything else as JSON.
fn plain(value: &str) -> Result<String, String> {
    if !value.starts_with('"') {
        return Ok(value.to_owned());
    }
    json::string(value).ok_or_else(|| {
        "a text of its arguments has half of a character, which no command line can hold".to_owned()
    })
}

/// One word of a shell, whatever is in it.
fn quoted(word: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-_./=,:@%+".contains(c);
    if !word.is_empty() && word.chars().all(harmless) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Failure {
        Failure {
            about: vec!["call.exception\r\nimport os; os.abort()".to_owned()],
            library: Some("json".to_owned()),
            module: Some("decoder".to_owned()),
            function: Some("JSONDecoder.decode".to_owned()),
            arguments: Some(r#"["it's \"x\"\n", 1, {"a": null}]"#.to_owned()),
        }
    }

    #[test]
    fn a_python_script_is_data_in_a_fixed_frame() {
        let expected = concat!(
            "#!/usr/bin/env python3\n",
            "# -*- coding: utf-8 -*-\n",
            "# call.exception\n",
            "# import os; os.abort()\n",
            "\n",
            "import functools\n",
            "import importlib\n",
            "import json\n",
            "\n",
            "module = importlib.import_module(\"json.decoder\")\n",
            "function = functools.reduce(getattr, \"JSONDecoder.decode\".split(\".\"), module)\n",
            "arguments = json.loads(\"[\\\"it's \\\\\\\"x\\\\\\\"\\\\n\\\", 1, {\\\"a\\\": null}]\")\n",
            "named = json.loads(\"{}\")\n",
            "print(repr(function(*arguments, **named)))\n",
        );
        assert_eq!(failure().script(Language::Python).unwrap(), expected);
    }

    #[test]
    fn a_shell_script_quotes_every_word() {
        let script = failure().script(Language::Shell).unwrap();
        let last = r#"exec json decoder JSONDecoder.decode 'it'\''s "x"
' 1 '{"a": null}'"#;
        assert!(script.ends_with(&format!("\n{last}\n")), "{script}");
        let named = Failure {
            arguments: Some(r#"{"path": "a b", "force": true, "dry": false, "n": 3}"#.to_owned()),
            ..Failure { library: Some("tool".to_owned()), ..Failure::default() }
        };
        let script = named.script(Language::Shell).unwrap();
        assert!(script.ends_with("exec tool '--path=a b' --force --n=3\n"), "{script}");
    }

    #[test]
    fn a_program_that_a_shell_would_take_for_an_option_is_refused() {
        let option = Failure {
            library: Some("-c".to_owned()),
            function: Some("echo".to_owned()),
            ..Failure::default()
        };
        let why = option.script(Language::Shell).unwrap_err();
        assert!(why.starts_with("its program's name begins with a dash"), "{why}");
        let alone = Failure { library: Some(String::new()), function: option.library, ..option };
        assert!(alone.script(Language::Shell).is_err());
        let later = Failure { library: Some("sh".to_owned()), ..alone };
        assert!(later.script(Language::Shell).unwrap().ends_with("exec sh -c\n"));
    }

    #[test]
    fn modules_are_joined_with_their_library_once() {
        let module = |library: &str, module: &str| {
            let given = |text: &str| Some(text.to_owned());
            Failure { library: given(library), module: given(module), ..Failure::default() }
                .python_module()
        };
        assert_eq!(module("numpy", "linalg"), "numpy.linalg");
        assert_eq!(module("numpy", "numpy.linalg"), "numpy.linalg");
        assert_eq!(module("numpy", "numpyro"), "numpy.numpyro");
        assert_eq!(module("numpy", ""), "numpy");
        assert_eq!(module("", ""), "builtins");
    }

    #[test]
    fn named_and_unnamed_arguments_may_come_together() {
        let with = |arguments: &str| {
            let failure = Failure {
                function: Some("f".to_owned()),
                arguments: Some(arguments.to_owned()),
                ..Failure::default()
            };
            let script = failure.script(Language::Python).unwrap();
            script.lines().filter(|line| line.contains("json.loads")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            with(r#"{"args": [1], "kwargs": {"k": 2}}"#),
            r#"arguments = json.loads("[1]") named = json.loads("{\"k\": 2}")"#
        );
        assert_eq!(
            with(r#"{"args": 1, "other": 2}"#),
            r#"arguments = json.loads("[]") named = json.loads("{\"args\": 1, \"other\": 2}")"#
        );
        assert_eq!(with("7"), r#"arguments = json.loads("[7]") named = json.loads("{}")"#);
        assert_eq!(with(""), r#"arguments = json.loads("[]") named = json.loads("{}")"#);
    }

    #[test]
    fn numbers_and_keys_come_as_they_were_written() {
        let written = "123456789012345678901234567890 -0 1e400 1.50 NaN";
        let list = format!("[{}]", written.replace(' ', ", "));
        let given = Failure { arguments: Some(list.clone()), ..failure() };
        let script = given.script(Language::Python).unwrap();
        assert!(script.contains(&format!("\narguments = json.loads(\"{list}\")\n")), "{script}");
        let script = given.script(Language::Shell).unwrap();
        assert!(script.ends_with(&format!(" {written}\n")), "{script}");
        let named = r#"{"z": 1, "a": {"y": 2, "b": 3}, "\ud800": 4}"#;
        let given = Failure { arguments: Some(named.to_owned()), ..failure() };
        let script = given.script(Language::Python).unwrap();
        let expected = Value::from(named).to_string();
        assert!(script.contains(&format!("\nnamed = json.loads({expected})\n")), "{script}");
        let why = given.script(Language::Shell).unwrap_err();
        assert!(why.contains("half of a character"), "{why}");
    }

    #[test]
    fn what_is_missing_or_wrong_is_said() {
        let nothing = Failure::default();
        assert!(nothing.script(Language::Python).unwrap_err().contains("`function`"));
        assert!(nothing.script(Language::Shell).unwrap_err().contains("nothing to run"));
        let cut = Failure { arguments: Some("[1, 2".to_owned()), ..failure() };
        assert!(
            cut.script(Language::Python).unwrap_err().contains("is not JSON: it ends too early")
        );
        let zero = Failure { arguments: Some(r#"["a\u0000b"]"#.to_owned()), ..failure() };
        assert!(zero.script(Language::Shell).unwrap_err().contains("a zero byte"));
        assert!(zero.script(Language::Python).is_ok());
    }
}
