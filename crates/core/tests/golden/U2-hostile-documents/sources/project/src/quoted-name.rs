let a = &b < c;
