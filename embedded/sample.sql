-- The sample database: two schemas, five tables and a view, the same rows on every machine.
-- Values come from hashes of the row number, not from random(), whose sequence may change between versions.

CREATE FUNCTION pg_temp.pick(seed bigint, salt text, bound int) RETURNS int
LANGUAGE sql IMMUTABLE AS
$$ SELECT (('x' || substr(md5(seed || salt), 1, 7))::bit(28)::int) % bound $$;

CREATE TYPE account_kind AS ENUM ('personal', 'business', 'non-profit');

CREATE TABLE customers (
    id          uuid PRIMARY KEY,
    name        text NOT NULL,
    email       varchar(120) NOT NULL UNIQUE,
    kind        account_kind NOT NULL,
    born        date,
    credit      numeric(18,2) NOT NULL,
    score       smallint,
    rating      real,
    active      boolean NOT NULL,
    tags        text[] NOT NULL,
    profile     jsonb,
    avatar      bytea,
    signed_up   timestamptz NOT NULL,
    last_seen   timestamp
);
COMMENT ON TABLE customers IS 'People and companies that hold accounts';

INSERT INTO customers
SELECT md5('customer' || i)::uuid,
       (ARRAY['José', 'Zoë', 'O''Brien', 'Анна', '李雷', 'Müller 🚀', 'Nils "Quote" Berg', 'Ada', 'مريم', 'Grace'])
           [1 + pg_temp.pick(i, 'first', 10)] || ' ' ||
       (ARRAY['Silva', 'Nguyễn', 'de la Cruz', 'Smith', 'Jönsson', 'Łukasik', 'Okafor', 'Back\slash', 'Tanaka', 'Ruiz'])
           [1 + pg_temp.pick(i, 'last', 10)],
       'customer' || i || '@example.com',
       (enum_range(NULL::account_kind))[1 + pg_temp.pick(i, 'kind', 3)],
       CASE WHEN i % 11 = 0 THEN NULL ELSE date '1945-01-01' + pg_temp.pick(i, 'born', 22000) END,
       (pg_temp.pick(i, 'credit', 90000000) - 20000000) / 100.0,
       CASE WHEN i % 7 = 0 THEN NULL ELSE pg_temp.pick(i, 'score', 850) END,
       pg_temp.pick(i, 'rating', 50) / 10.0,
       pg_temp.pick(i, 'active', 10) < 8,
       CASE i % 4 WHEN 0 THEN '{}' WHEN 1 THEN ARRAY['vip'] WHEN 2 THEN ARRAY['new', NULL, 'a,b']
                  ELSE ARRAY['says "hi"', 'emoji 🎉'] END,
       CASE WHEN i % 9 = 0 THEN NULL ELSE jsonb_build_object(
           'city', (ARRAY['São Paulo', 'Wien', 'Osaka', 'Lagos'])[1 + pg_temp.pick(i, 'city', 4)],
           'newsletter', i % 2 = 0, 'devices', jsonb_build_array(i % 3, 'phone', NULL),
           'limit', pg_temp.pick(i, 'limit', 100000) / 100.0) END,
       CASE WHEN i % 5 = 0 THEN NULL ELSE decode(md5('avatar' || i), 'hex') END,
       timestamptz '2021-03-01 00:00:00+00' + make_interval(secs => pg_temp.pick(i, 'signup', 94000000)),
       CASE WHEN i % 6 = 0 THEN NULL
            ELSE timestamp '2024-01-01' + make_interval(secs => pg_temp.pick(i, 'seen', 30000000) / 1000.0) END
FROM generate_series(1, 2000) AS i;

CREATE TABLE transactions (
    id          bigint PRIMARY KEY,
    customer_id uuid NOT NULL,
    booked_at   timestamptz NOT NULL,
    amount      numeric(18,4) NOT NULL,
    currency    char(3) NOT NULL,
    fee         double precision,
    settled     boolean NOT NULL,
    reference   uuid NOT NULL,
    memo        text,
    details     jsonb
);
COMMENT ON TABLE transactions IS 'Two hundred thousand bookings';

INSERT INTO transactions
SELECT i,
       md5('customer' || (1 + h % 2000))::uuid,
       timestamptz '2023-01-01 00:00:00+00' + i * interval '157.25 seconds',
       ((h % 2000001) - 1000000) / 10000.0 * (1 + i % 97),
       (ARRAY['EUR', 'USD', 'BRL', 'JPY'])[1 + h % 4],
       CASE WHEN i % 5 = 0 THEN NULL ELSE (h % 1000) / 7.0 END,
       h % 3 > 0,
       digest,
       CASE i % 8 WHEN 0 THEN NULL WHEN 1 THEN 'Rent, "March"' WHEN 2 THEN 'Café 🙂 no. ' || i
                  WHEN 3 THEN E'two\nlines' WHEN 4 THEN '' ELSE 'Order ' || h END,
       CASE WHEN i % 10 = 0 THEN NULL
            ELSE ('{"channel": "' || (ARRAY['card', 'wire', 'cash'])[1 + h % 3] || '", "lines": ' || h % 9 || '}')::jsonb END
FROM (SELECT i, digest::uuid AS digest, ('x' || substr(digest, 1, 7))::bit(28)::int AS h
      FROM (SELECT i, md5(i::text) AS digest FROM generate_series(1, 200000) AS i OFFSET 0) AS hashed
      OFFSET 0) AS rows; -- OFFSET 0: each hash is computed once, not once per mention

CREATE TABLE "order" (
    "select"      integer PRIMARY KEY,
    "customerId"  uuid NOT NULL REFERENCES customers (id),
    "Total Price" numeric NOT NULL,
    quantities    integer[] NOT NULL,
    grid          integer[][],
    "from"        inet,
    handled_in    interval,
    pickup        time,
    placed        timestamptz NOT NULL
);

INSERT INTO "order"
SELECT i, md5('customer' || (1 + i % 2000))::uuid,
       CASE WHEN i % 50 = 0 THEN 12345678901234567890.123456789012345678 ELSE pg_temp.pick(i, 'price', 999999) / 100.0 END,
       ARRAY[i % 5, NULL, i % 13],
       CASE WHEN i % 3 = 0 THEN NULL ELSE ARRAY[[i, i + 1], [i + 2, NULL]] END,
       CASE WHEN i % 4 = 0 THEN NULL ELSE ('10.' || i % 256 || '.' || i % 7 || '.1')::inet END,
       CASE WHEN i % 6 = 0 THEN NULL ELSE make_interval(days => i % 40, mins => i % 1440) END,
       time '08:00' + make_interval(mins => i % 600),
       timestamptz '2024-06-01 00:00:00+00' + make_interval(mins => i)
FROM generate_series(1, 5000) AS i;

CREATE SCHEMA reporting;

CREATE TABLE reporting.ledger (
    entry    bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    day      date NOT NULL,
    account  text NOT NULL,
    debit    numeric(20,6) NOT NULL DEFAULT 0,
    credit   numeric(20,6) NOT NULL DEFAULT 0,
    valid    tstzrange,
    checksum bytea NOT NULL
);

INSERT INTO reporting.ledger (entry, day, account, debit, credit, valid, checksum)
SELECT i, date '2024-01-01' + i % 366, 'ACC-' || lpad((i % 120)::text, 4, '0'),
       CASE WHEN i % 2 = 0 THEN pg_temp.pick(i, 'debit', 99999999) / 1000.0 ELSE 0 END,
       CASE WHEN i % 2 = 1 THEN pg_temp.pick(i, 'credit', 99999999) / 1000.0 ELSE 0 END,
       CASE WHEN i % 4 = 0 THEN NULL ELSE tstzrange(
           timestamptz '2024-01-01 00:00:00+00' + make_interval(hours => i),
           timestamptz '2024-01-02 00:00:00+00' + make_interval(hours => i)) END,
       decode(md5('ledger' || i), 'hex')
FROM generate_series(1, 3000) AS i;

CREATE TABLE reporting."Weird Name" (
    "Id"           integer PRIMARY KEY,
    "with space"   text,
    "quo""te"      text,
    "naïve 🙂"     text,
    "MixedCase"    boolean,
    "$dollar"      double precision,
    "group"        json
);

INSERT INTO reporting."Weird Name"
SELECT i, 'value ' || i, CASE WHEN i % 3 = 0 THEN NULL ELSE 'it''s "' || i || '"' END,
       repeat('🎈', i % 4), i % 2 = 0,
       CASE i % 5 WHEN 0 THEN 'NaN' WHEN 1 THEN 'Infinity' WHEN 2 THEN '-0'::float8 ELSE i / 3.0 END,
       ('{"b": ' || i || ', "a": [1.10, null, "\u00e9"]}')::json
FROM generate_series(1, 200) AS i;

CREATE VIEW reporting.customer_totals AS
SELECT c.id, c.name, count(*) AS bookings, sum(t.amount) AS total
FROM public.customers c JOIN public.transactions t ON t.customer_id = c.id
GROUP BY c.id, c.name;
