CREATE TABLE orders (id int COMMENT 'key', name varchar(5), price decimal(6,2), weight float)
    COMMENT 'of a shop' PARTITIONED BY (day date) CLUSTERED BY (name) INTO 2 BUCKETS
    STORED AS ORC TBLPROPERTIES ('transactional'='true', 'orc.compress'='ZLIB');
ALTER TABLE orders ADD PARTITION (day='2020-01-01') PARTITION (day='2020-01-02');
INSERT INTO orders VALUES
    (1, 'Ada', 1.50, 0.5, DATE '2020-01-01'),
    (2, 'Grace', 9999.99, 0.25, DATE '2020-01-02');
ALTER TABLE orders CHANGE COLUMN id id bigint;
ALTER TABLE orders CHANGE price price decimal(10,4) CASCADE;
ALTER TABLE orders ADD COLUMNS (note string COMMENT 'free', tags array<string>);
INSERT INTO orders VALUES
    (3000000000, 'Alan', 123456.1234, 0.125, 'x', array('a', 'b'),
        DATE '2020-01-02');
UPDATE orders SET note = concat(name, '!') WHERE id = 1;
ALTER TABLE orders ADD IF NOT EXISTS PARTITION (day='2020-01-03');
ALTER TABLE orders DROP IF EXISTS PARTITION (day='2020-01-03'), PARTITION (day='2021-01-01');
ALTER TABLE orders SET TBLPROPERTIES ('owner.team'='shop');
ALTER TABLE orders RENAME TO sold;
