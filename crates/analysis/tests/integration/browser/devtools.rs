//! Drives the front end of Chromium's developer tools, a page that opens Chrome traces as Perfetto does. The protocol
//! is DevTools on a pipe (`--remote-debugging-pipe`): JSON messages that end with a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// The URL of the front end's page for traces.
const FRONT_END: &str = "devtools://devtools/bundled/js_app.html?panel=timeline";

/// A Chromium process without a window, killed on drop.
pub struct DevTools {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The number of messages sent.
    count: u64,
}

impl DevTools {
    /// Starts Chromium with its profile in `folder`.
    pub fn start(chromium: &Path, folder: &Path) -> DevTools {
        // Chromium reads the protocol from descriptor 3 and writes it to 4.
        let mut child = Command::new("sh")
            .args([
                "-c",
                "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null",
                "sh",
            ])
            .arg(chromium)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
            ])
            .args(["--disable-dev-shm-usage", "--disable-background-networking"])
            .args(["--disable-component-update", "--disable-sync"])
            .args(["--disable-quic", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", folder.join("data").display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        DevTools {
            child,
            input,
            output: BufReader::new(output),
            count: 0,
        }
    }

    /// Opens the front end, runs a script in it and returns the result as JSON. `script` is the body of an asynchronous
    /// function.
    pub fn in_front_end(&mut self, script: &str) -> Value {
        let target = self.call("Target.createTarget", &json!({ "url": FRONT_END }), None);
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call("Target.attachToTarget", &attach, None);
        let session = session["sessionId"].as_str().unwrap();
        // While the page opens, it has no script context, or the script context of the previous page.
        let ready = json!({ "expression": "document.readyState + location.protocol", "returnByValue": true });
        for _ in 0..1_000 {
            let state = self.call("Runtime.evaluate", &ready, Some(session));
            if state["result"]["value"] == "completedevtools:" {
                break;
            }
        }
        let expression = format!("(async () => {{ {script} }})()");
        let evaluate =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", &evaluate, Some(session));
        assert!(answer["exceptionDetails"].is_null(), "{answer:#}");
        answer["result"]["value"].clone()
    }

    fn call(&mut self, method: &str, parameters: &Value, session: Option<&str>) -> Value {
        self.count += 1;
        let mut message = json!({ "id": self.count, "method": method, "params": parameters });
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        write!(self.input, "{message}\0").unwrap();
        self.input.flush().unwrap();
        loop {
            let mut bytes = Vec::new();
            self.output.read_until(0, &mut bytes).unwrap();
            let text = bytes.strip_suffix(&[0]).expect("Chromium has exited");
            let answer: Value = serde_json::from_slice(text).unwrap();
            // A message without an id is an event.
            if answer["id"] == self.count {
                assert!(answer["error"].is_null(), "{method}: {answer:#}");
                return answer["result"].clone();
            }
        }
    }
}

impl Drop for DevTools {
    fn drop(&mut self) {
        // Chromium may already have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
