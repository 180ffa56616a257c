//! `siltstone serve data` as a process, and its clients.

use crate::runner::program;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server process. It is killed when it is dropped.
pub struct Process {
    pub child: Child,
    pub address: String,
    /// All addresses of Redis's protocol.
    pub addresses: Vec<String>,
    /// The address of the metrics.
    pub metrics: Option<String>,
}

impl Process {
    pub fn start(directory: &Path, options: &[&str]) -> Process {
        Process::start_at("127.0.0.1:0", directory, &["serve", "data"], options)
    }

    /// Starts a command that serves a directory at an address.
    pub fn start_at(address: &str, directory: &Path, command: &[&str], options: &[&str]) -> Process {
        let mut child = program()
            .args(command)
            .args([directory.to_str().unwrap(), "--redis", address, "--json"])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let started: Value = serde_json::from_str(&line).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let addresses = started["addresses"]["redis"].as_array().unwrap().iter().map(text).collect();
        let metrics = started["metrics"].as_str().map(str::to_owned);
        Process { child, address: text(&started["redis"]), addresses, metrics }
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.address).unwrap()
    }
}

impl Process {
    /// Ends the server as SIGTERM does, and waits for it.
    pub fn stop(&mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }

    /// Lets the server load its files again.
    pub fn hang_up(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    }

    /// Returns the resident memory, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that ends at any time.
pub struct Client {
    pub socket: TcpStream,
    pub input: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(address: &str) -> std::io::Result<Client> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Client { input: BufReader::new(socket.try_clone()?), socket })
    }

    pub fn send(&mut self, requests: &[String]) -> std::io::Result<()> {
        let mut bytes = String::new();
        for request in requests {
            let words: Vec<&str> = request.split(' ').collect();
            bytes.push_str(&format!("*{}\r\n", words.len()));
            words.iter().for_each(|word| bytes.push_str(&format!("${}\r\n{word}\r\n", word.len())));
        }
        self.socket.write_all(bytes.as_bytes())
    }

    /// Returns the next reply: the strings and numbers of an array with spaces between them, and `-` for a null.
    pub fn reply(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        self.input.read_line(&mut line)?;
        let Some(line) = line.strip_suffix("\r\n") else {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        };
        let (kind, rest) = line.split_at(1);
        Ok(match kind {
            "$" if rest == "-1" => "-".to_owned(),
            "$" => {
                let mut bytes = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.input.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                String::from_utf8(bytes).unwrap()
            }
            "*" => {
                let items = (0..rest.parse::<usize>().unwrap()).map(|_| self.reply());
                items.collect::<std::io::Result<Vec<_>>>()?.join(" ")
            }
            _ => line.to_owned(),
        })
    }

    pub fn ask(&mut self, request: &str) -> String {
        self.send(&[request.to_owned()]).unwrap();
        self.reply().unwrap()
    }
}
