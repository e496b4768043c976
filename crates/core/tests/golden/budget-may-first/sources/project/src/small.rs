mod price;
