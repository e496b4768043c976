mod cart;
mod price;
mod stock;

fn main() {}
