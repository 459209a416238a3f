/*
 * The schema, as steps from one number to the next.
 *
 *     meta.schema = n-1 ──► statements of step n, the last of which sets it to n
 *
 * MariaDB and MySQL commit each CREATE and ALTER on its own, so a step may be cut off anywhere:
 * *rule*: each of its statements does no harm when it is run again.
 *
 * A tarry serves the schema that it makes and the one before, but no newer one. So nodes are
 * replaced one by one, and then the tables are migrated; nobody has to stop.
 *
 * Bytes are bytes: everything is of the character set binary. Times are microseconds since 1970,
 * in UTC, signed, since differences of unsigned numbers are errors to SQL. 0 stands for "none was
 * given", as in Redis, so that there is no NULL to be careful with but for texts.
 *
 * One index besides the primary key (`work`): each more is a write for each change of each job.
 */

#include "remote/sql_schema.h"

#define BIG "BIGINT NOT NULL DEFAULT 0"
#define ID "BIGINT UNSIGNED NOT NULL"
#define INT "INT UNSIGNED NOT NULL DEFAULT 0"
#define TINY "TINYINT UNSIGNED NOT NULL DEFAULT 0"
#define SMALL "SMALLINT UNSIGNED NOT NULL DEFAULT 0"
#define TABLE ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET binary"

static const char *const first[] = {
    /* What is agreed on: schema, and of the store uuid, slots, prefix. */
    "CREATE TABLE IF NOT EXISTS `meta` (\n"
    "  `k` VARBINARY(64) NOT NULL,\n"
    "  `v` VARBINARY(1024) NOT NULL,\n"
    "  PRIMARY KEY (`k`)\n" TABLE,

    /* A job, the truth. next_at: due, end of the lease, or time of death. */
    "CREATE TABLE IF NOT EXISTS `job` (\n"
    "  `id` " ID ",\n"
    "  `slot` " SMALL ",\n"
    "  `topic_id` " INT ",\n"
    "  `gen` " INT ",\n"
    "  `state` " TINY ",\n"
    "  `next_at` " BIG ",\n"
    "  `due` " BIG ",\n"
    "  `created` " BIG ",\n"
    "  `changed` " BIG ",\n"
    "  `handed` " BIG ",\n"
    "  `delay` " BIG ",\n"
    "  `ttr` " BIG ",\n"
    "  `ttl` " BIG ",\n"
    "  `prio` " INT ",\n"
    "  `ver` " INT ",\n"
    "  `lease` " ID " DEFAULT 0,\n"
    "  `flags` " TINY ",\n"
    "  `holder` " TINY ",\n"
    "  `retries` " INT ",\n"
    "  `attempts` " INT ",\n"
    "  `timeouts` " INT ",\n"
    "  `releases` " INT ",\n"
    "  `buries` " INT ",\n"
    "  `kicks` " INT ",\n"
    "  `reason` " TINY ",\n"
    "  `sched_id` " INT ",\n"
    "  `sched_n` " BIG ",\n"
    "  `tag` VARBINARY(64) NULL,\n"
    "  `jkey` VARBINARY(255) NULL,\n"
    "  `backoff` VARBINARY(1024) NULL,\n"
    "  `body` MEDIUMBLOB NOT NULL,\n"
    "  PRIMARY KEY (`id`),\n"
    "  KEY `work` (`slot`, `topic_id`, `state`, `next_at`)\n" TABLE,

    "CREATE TABLE IF NOT EXISTS `job_key` (\n"
    "  `topic_id` " INT ",\n"
    "  `jkey` VARBINARY(255) NOT NULL,\n"
    "  `id` " ID ",\n"
    "  PRIMARY KEY (`topic_id`, `jkey`)\n" TABLE,

    /* Jobs of an older gen than their topic's were purged. */
    "CREATE TABLE IF NOT EXISTS `topic` (\n"
    "  `topic_id` INT UNSIGNED NOT NULL AUTO_INCREMENT,\n"
    "  `name` VARBINARY(200) NOT NULL,\n"
    "  `spread` " SMALL ",\n"
    "  `ord` " TINY ",\n"
    "  `kept` " TINY ",\n"
    "  `pver` " INT ",\n"
    "  `gen` " INT ",\n"
    "  `policy` BLOB NOT NULL,\n"
    "  PRIMARY KEY (`topic_id`),\n"
    "  UNIQUE KEY `name` (`name`)\n" TABLE,

    /* How many jobs there are: the sum over lanes. A lane is written by one connection alone. */
    "CREATE TABLE IF NOT EXISTS `cnt` (\n"
    "  `topic_id` " INT ",\n"
    "  `gen` " INT ",\n"
    "  `lane` " INT ",\n"
    "  `waiting` " BIG ",\n"
    "  `reserved` " BIG ",\n"
    "  `dead` " BIG ",\n"
    "  `bytes` " BIG ",\n"
    "  PRIMARY KEY (`topic_id`, `gen`, `lane`)\n" TABLE,

    /* One for each connection of each node: the number of its last transaction, which is written
     * in that, so a lost answer can be looked up. */
    "CREATE TABLE IF NOT EXISTS `lane` (\n"
    "  `lane` INT UNSIGNED NOT NULL AUTO_INCREMENT,\n"
    "  `node` " ID ",\n"
    "  `op` " BIG ",\n"
    "  `seen` " BIG ",\n"
    "  PRIMARY KEY (`lane`)\n" TABLE,

    "CREATE TABLE IF NOT EXISTS `schedule` (\n"
    "  `sched_id` INT UNSIGNED NOT NULL AUTO_INCREMENT,\n"
    "  `name` VARBINARY(200) NOT NULL,\n"
    "  `topic_id` " INT ",\n"
    "  `slot` " SMALL ",\n"
    "  `last_n` " BIG ",\n"
    "  `next_at` " BIG ",\n"
    "  `last_job` " BIG ",\n"
    "  `ver` " INT ",\n"
    "  `spec` BLOB NOT NULL,\n"
    "  PRIMARY KEY (`sched_id`),\n"
    "  UNIQUE KEY `name` (`name`)\n" TABLE,

    "CREATE TABLE IF NOT EXISTS `slot` (\n"
    "  `slot` SMALLINT UNSIGNED NOT NULL,\n"
    "  `epoch` " INT ",\n"
    "  `owner` " ID " DEFAULT 0,\n"
    "  `next_seq` " BIG ",\n"
    "  PRIMARY KEY (`slot`)\n" TABLE,

    "CREATE TABLE IF NOT EXISTS `node` (\n"
    "  `node` " ID ",\n"
    "  `address` VARBINARY(255) NOT NULL,\n"
    "  `seen` " BIG ",\n"
    "  PRIMARY KEY (`node`)\n" TABLE,

    /* What happened to jobs; days are dropped as a whole. */
    "CREATE TABLE IF NOT EXISTS `flow` (\n"
    "  `id` " ID ",\n"
    "  `at` BIGINT NOT NULL,\n"
    "  `n` SMALLINT UNSIGNED NOT NULL,\n"
    "  `day` INT UNSIGNED NOT NULL,\n"
    "  `event` " TINY ",\n"
    "  `from_state` " TINY ",\n"
    "  `to_state` " TINY ",\n"
    "  `reason` " TINY ",\n"
    "  `slot` " SMALL ",\n"
    "  `topic_id` " INT ",\n"
    "  `node` " ID " DEFAULT 0,\n"
    "  `actor` VARBINARY(64) NULL,\n"
    "  `info` VARBINARY(1024) NULL,\n"
    "  PRIMARY KEY (`id`, `at`, `n`, `day`)\n" TABLE "\n"
    "PARTITION BY RANGE (`day`) (PARTITION `rest` VALUES LESS THAN MAXVALUE)",

    "INSERT INTO `meta` (`k`, `v`) VALUES ('schema', '1')\n"
    "ON DUPLICATE KEY UPDATE `v` = IF(`v` + 0 < 1, '1', `v`)",
    NULL};

/* ALTER has no IF NOT EXISTS in MySQL: so it is done if the column is not there. */
#define UNLESS(table, column, alter)                                                               \
    "SET @tarry = IF((SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = "       \
    "DATABASE() AND TABLE_NAME = '" table "' AND COLUMN_NAME = '" column "') = 0,\n"               \
    "  'ALTER TABLE `" table "` " alter "', 'DO 0')",                                              \
        "PREPARE tarry FROM @tarry", "EXECUTE tarry", "DEALLOCATE PREPARE tarry"

static const char *const second[] = {
    /* Jobs of an older gen are deleted some at a time: meanwhile nobody goes through them. If the
     * index is there, and is not so already: the table may be somebody else's. */
    "SET @tarry = IF((SELECT COUNT(*) = 4 AND SUM(`COLUMN_NAME` = 'gen') = 0 FROM\n"
    "  information_schema.STATISTICS WHERE `TABLE_SCHEMA` = DATABASE() AND `TABLE_NAME` = 'job'\n"
    "  AND `INDEX_NAME` = 'work'),\n"
    "  'ALTER TABLE `job` DROP KEY `work`, ADD KEY `work` (`slot`, `topic_id`, `gen`, `state`, "
    "`next_at`)', 'DO 0')",
    "PREPARE tarry FROM @tarry", "EXECUTE tarry", "DEALLOCATE PREPARE tarry",

    /* How far a schedule has come; when the job has ended for which it waits. */
    UNLESS("schedule", "state",
           "MODIFY `spec` MEDIUMBLOB NOT NULL, ADD COLUMN `ended` BIGINT NOT NULL DEFAULT 0 AFTER "
           "`last_job`, ADD COLUMN `state` VARBINARY(255) NOT NULL, ADD KEY `due` (`slot`, "
           "`next_at`)"),

    /* Topics that the server delivers. */
    UNLESS("topic", "delivers",
           "ADD COLUMN `delivers` TINYINT UNSIGNED NOT NULL DEFAULT 0, ADD KEY `delivers` "
           "(`delivers`)"),

    "INSERT INTO `meta` (`k`, `v`) VALUES ('schema', '2')\n"
    "ON DUPLICATE KEY UPDATE `v` = IF(`v` + 0 < 2, '2', `v`)",
    NULL};

static const char *const *const steps[TR_SQL_SCHEMA + 1] = {[1] = first, [2] = second};

static const struct tr_sql_table tables[] = {
    {"meta", "k,v", 1},
    {"job",
     "id,slot,topic_id,gen,state,next_at,due,created,changed,handed,delay,ttr,ttl,prio,ver,"
     "lease,flags,holder,retries,attempts,timeouts,releases,buries,kicks,reason,sched_id,"
     "sched_n,tag,jkey,backoff,body",
     1},
    {"job_key", "topic_id,jkey,id", 1},
    {"topic", "topic_id,name,spread,ord,kept,pver,gen,policy", 1},
    {"cnt", "topic_id,gen,lane,waiting,reserved,dead,bytes", 1},
    {"lane", "lane,node,op,seen", 1},
    {"schedule", "sched_id,name,topic_id,slot,last_n,next_at,last_job,ver,spec", 1},
    {"slot", "slot,epoch,owner,next_seq", 1},
    {"node", "node,address,seen", 1},
    {"flow", "id,at,n,day,event,from_state,to_state,reason,slot,topic_id,node,actor,info", 1},
    {"schedule", "state,ended", 2},
    {"topic", "delivers", 2},
};

enum tr_sql_fit tr_sql_schema_fit(unsigned found)
{
    if (found > TR_SQL_SCHEMA) {
        return TR_SQL_NEWER;
    }
    return found < TR_SQL_SCHEMA_OLDEST ? TR_SQL_MISSING : TR_SQL_FITS;
}

const char *tr_sql_schema_step(unsigned to, unsigned i)
{
    return to <= TR_SQL_SCHEMA ? steps[to][i] : NULL;
}

const struct tr_sql_table *tr_sql_schema_table(unsigned i)
{
    return i < sizeof tables / sizeof tables[0] ? &tables[i] : NULL;
}
