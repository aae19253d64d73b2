CREATE EXTERNAL TABLE src (k int, v string) STORED AS ORC

INSERT INTO src VALUES (1, 'one'), (2, 'two'), (5, NULL), (NULL, 'none')

CREATE TABLE words (key int DEFAULT 1, value string) CLUSTERED BY (key) INTO 2 BUCKETS STORED AS ORC TBLPROPERTIES ('transactional'='true')

CREATE TABLE kinds (k int, t tinyint DEFAULT 127Y, b bigint DEFAULT 5L, e double DEFAULT 1E3, de decimal(9,2) DEFAULT 1234567.89, s string DEFAULT 'it\'s', day date DEFAULT DATE'2018-02-14', ts timestamp DEFAULT TIMESTAMP'2016-02-22 12:45:07', c char(4) DEFAULT cast('abcdef' AS char(4)), v varchar(3) DEFAULT cast('abcdef' AS varchar(3)), i int DEFAULT cast(4.9 AS int), f float DEFAULT cast(45.4 AS float), bo boolean DEFAULT cast('true' AS boolean)) STORED AS ORC TBLPROPERTIES ('transactional'='true')

CREATE TABLE demands (i int, j int, a int NOT NULL ENABLE, b bigint, CONSTRAINT c1 CHECK (-i > -10), CONSTRAINT c2 CHECK (a BETWEEN i AND j), CONSTRAINT c3 CHECK (b IN (4, 5) OR b > 100 AND NOT b = 200), CONSTRAINT c4 CHECK (i + NULL > 0)) STORED AS ORC TBLPROPERTIES ('transactional'='true')

CREATE TABLE parts (a int NOT NULL ENABLE, c string DEFAULT 'c') PARTITIONED BY (p int, q string) STORED AS ORC TBLPROPERTIES ('transactional'='true')

CREATE TABLE `odd` (`a b` int, `select` string, `x-y` int) STORED AS ORC TBLPROPERTIES ('transactional'='true')

CREATE TABLE types (ti tinyint, si smallint, i int, bi bigint, f float, d double, de decimal(5,2), ts timestamp, day date, s string, vc varchar(20), ch char(8), b boolean) STORED AS ORC TBLPROPERTIES ('transactional'='true')
