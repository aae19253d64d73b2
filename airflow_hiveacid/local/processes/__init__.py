"""Server processes that outlive the program that started them and can be found again."""
