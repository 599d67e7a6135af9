CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL, due TEXT NOT NULL, state TEXT NOT NULL);
CREATE TABLE payment (task TEXT PRIMARY KEY, order_id INTEGER NOT NULL CHECK (order_id > 0));
INSERT INTO orders VALUES (1, 'Ada', '2026-01-10', 'open'), (2, 'Bob', '2026-02-10', 'open'), (3, 'Cleo', '2026-01-05', 'paid');
