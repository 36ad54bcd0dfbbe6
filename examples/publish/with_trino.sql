-- Write to a branch with Trino and audit it; publish it with the call that README.md shows.
INSERT INTO nightly.shop.orders VALUES (100, 7.0), (101, 8.0);
SELECT count(*) AS audited FROM nightly.shop.orders WHERE amount < 0;  -- publish when it is 0
