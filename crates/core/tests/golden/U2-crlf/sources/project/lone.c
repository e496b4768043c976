a < b
cd
