#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut reads = Vec::new();
    for path in ["Cargo.toml", "LICENSE-MIT"] {
        reads.push(tokio::task::spawn_blocking(move || std::fs::read_to_string(path)));
    }
    for read in reads {
        println!("{} bytes", read.await??.len());
    }
    Ok(())
}
