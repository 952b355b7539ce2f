//! Headless Chromium, driven over its DevTools protocol on a pipe (`--remote-debugging-pipe`): JSON messages, each
//! of which ends with a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// Interval at which the load state of a page is polled.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A running Chromium, killed on drop.
pub(super) struct Chromium {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The number of messages sent.
    count: u64,
}

impl Chromium {
    /// Starts Chromium with the profile folder `profile`. It makes no background connections.
    pub(super) fn start(profile: &Path, arguments: &[String]) -> Result<Chromium, String> {
        // Chromium reads the protocol from descriptor 3 and writes it to 4.
        let script = "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null";
        let mut child = Command::new("sh")
            .args(["-c", script, "sh"])
            .args(["--headless", "--no-sandbox", "--disable-gpu"])
            .args(["--disable-dev-shm-usage", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-sync"])
            .args(["--disable-component-update", "--no-proxy-server"])
            .args(["--disable-quic", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("failed to start chromium: {error}"))?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = pipes else {
            return Err("chromium has no pipes".to_owned());
        };
        Ok(Chromium {
            child,
            input,
            output: BufReader::new(output),
            count: 0,
        })
    }

    /// Opens an empty page; returns its session.
    pub(super) fn open_page(&mut self) -> Result<String, String> {
        let target = self.call(
            "Target.createTarget",
            &json!({ "url": "about:blank" }),
            None,
        )?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call("Target.attachToTarget", &attach, None)?;
        let session = session["sessionId"].as_str().unwrap_or_default().to_owned();
        Ok(session)
    }

    /// Calls a method that loads the page, and waits until the `load` event is complete.
    pub(super) fn load(
        &mut self,
        method: &str,
        parameters: &Value,
        session: &str,
    ) -> Result<(), String> {
        // Marks the old document, so that its completion is not mistaken for the completion of the new document.
        self.evaluate("window.isReplaced = true", session)?;
        let answer = self.call(method, parameters, Some(session))?;
        if let Some(error) = answer["errorText"].as_str() {
            return Err(format!("{method}: {error}"));
        }
        let is_loaded =
            "!window.isReplaced && performance.getEntriesByType('navigation')[0].loadEventEnd > 0";
        // Between two documents the evaluation fails, because there is no document.
        while self.evaluate(is_loaded, session) != Ok(Value::Bool(true)) {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return Err("chromium has exited".to_owned());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Evaluates an expression in the page; returns its value as JSON.
    pub(super) fn evaluate(&mut self, expression: &str, session: &str) -> Result<Value, String> {
        let parameters = json!({ "expression": expression, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", &parameters, Some(session))?;
        match answer.get("exceptionDetails") {
            Some(details) => Err(format!("the page failed: {details}")),
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    /// Closes Chromium cleanly, so that its cache is written to the disk.
    pub(super) fn close(mut self) -> Result<(), String> {
        self.call("Browser.close", &json!({}), None)?;
        self.child.wait().map_err(|error| error.to_string())?;
        Ok(())
    }

    /// Calls a DevTools method of the browser or of a session.
    pub(super) fn call(
        &mut self,
        method: &str,
        parameters: &Value,
        session: Option<&str>,
    ) -> Result<Value, String> {
        self.count += 1;
        let mut message = json!({ "id": self.count, "method": method, "params": parameters });
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        write!(self.input, "{message}\0")
            .and_then(|()| self.input.flush())
            .map_err(|error| format!("failed to write to chromium: {error}"))?;
        loop {
            // A message without an id is an event.
            let answer = self.receive()?;
            if answer["id"] == self.count {
                return match answer["error"]["message"].as_str() {
                    Some(error) => Err(format!("{method}: {error}")),
                    None => Ok(answer["result"].clone()),
                };
            }
        }
    }

    fn receive(&mut self) -> Result<Value, String> {
        let mut bytes = Vec::new();
        self.output
            .read_until(0, &mut bytes)
            .map_err(|error| format!("failed to read from chromium: {error}"))?;
        let text = bytes.strip_suffix(&[0]).ok_or("chromium has exited")?;
        serde_json::from_slice(text).map_err(|error| format!("chromium sent no JSON: {error}"))
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Chromium may have exited by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
