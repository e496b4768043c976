if (a < b) {}
return a]]>b;
