//! An axum server with tower-http's trace layer, as their documentation shows it,
//! that asks itself a few questions and ends. Each request is a span that is entered
//! for every poll, on whichever worker polls it.
//!
//! ```text
//! server [FILE]
//! ```

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result, ensure};
use axum::{Router, routing::get};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tower_http::trace::TraceLayer;

const REQUESTS: usize = 200;

#[tracing::instrument]
async fn query(rows: u32) -> u32 {
    tokio::time::sleep(Duration::from_millis(5)).await;
    rows * 2
}

async fn answer() -> String {
    let first = query(17).await;
    let rest = tracing::info_span!("render", first).in_scope(|| format!("{first} rows"));
    query(first).await;
    rest
}

async fn ask(address: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    ensure!(text.ends_with("34 rows"), "an unexpected answer: {text}");
    Ok(())
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "server.trace".into());
    let recorder = ringscope::Recorder::builder().path(&file).start()?;
    ringscope::tracing::Subscriber::new().with_filter("info,tower_http=debug").install()?;

    let router = Router::new().route("/", get(answer)).layer(TraceLayer::new_for_http());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let mut asking = JoinSet::new();
    for _ in 0..REQUESTS {
        asking.spawn(ask(address));
    }
    while let Some(done) = asking.join_next().await {
        done.context("a question panicked")??;
    }
    server.abort();
    println!("{}", recorder.finish()?);
    Ok(())
}
