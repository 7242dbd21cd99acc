PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO alembic_version VALUES('0001');
CREATE TABLE candidates (
	candidate_id VARCHAR(40) NOT NULL, 
	trace_id VARCHAR(32) NOT NULL, 
	document TEXT NOT NULL, 
	redaction_status VARCHAR(16) NOT NULL, 
	redaction_confirmed BOOLEAN NOT NULL, 
	created_at FLOAT NOT NULL, 
	updated_at FLOAT NOT NULL, 
	exported_at FLOAT, 
	CONSTRAINT pk_candidates PRIMARY KEY (candidate_id), 
	CONSTRAINT uq_candidates_trace_id UNIQUE (trace_id)
);
CREATE TABLE dead_letters (
	id INTEGER NOT NULL, 
	received_at FLOAT NOT NULL, 
	reason VARCHAR(64) NOT NULL, 
	detail TEXT NOT NULL, 
	size_bytes INTEGER NOT NULL, 
	position BIGINT, 
	body BLOB, 
	CONSTRAINT pk_dead_letters PRIMARY KEY (id)
);
CREATE TABLE fault_tally (
	bucket_start BIGINT NOT NULL, 
	app VARCHAR(200) NOT NULL, 
	version VARCHAR(200) NOT NULL, 
	stratum VARCHAR(64) NOT NULL, 
	layer VARCHAR(16) NOT NULL, 
	judge VARCHAR(200) NOT NULL, 
	weight FLOAT NOT NULL, 
	judged INTEGER NOT NULL, 
	CONSTRAINT pk_fault_tally PRIMARY KEY (bucket_start, app, version, stratum, layer, judge)
);
INSERT INTO fault_tally VALUES(1796049240,'torture','1','normal_b1','generation','local-v1',2.0,2);
INSERT INTO fault_tally VALUES(1796049240,'torture','1','feedback_neg','generation','local-v1',1.0,1);
CREATE TABLE feedback (
	feedback_id VARCHAR(64) NOT NULL, 
	trace_id VARCHAR(32) NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	sentiment VARCHAR(8) NOT NULL, 
	score FLOAT, 
	label VARCHAR(64) DEFAULT '' NOT NULL, 
	comment TEXT DEFAULT '' NOT NULL, 
	"by" VARCHAR(64) DEFAULT '' NOT NULL, 
	received_at FLOAT NOT NULL, 
	position BIGINT NOT NULL, 
	CONSTRAINT pk_feedback PRIMARY KEY (feedback_id)
);
INSERT INTO feedback VALUES('99540a30da6f22a2585c41be26572b1f','00000000000000060000000000000069','thumbs','negative',NULL,'down','','',1796049261.9944779873,2832);
CREATE TABLE judgements (
	id INTEGER NOT NULL, 
	trace_id VARCHAR(32) NOT NULL, 
	criterion VARCHAR(32) NOT NULL, 
	label VARCHAR(16) NOT NULL, 
	score FLOAT, 
	explanation TEXT DEFAULT '' NOT NULL, 
	annotator_kind VARCHAR(8) NOT NULL, 
	identifier VARCHAR(200) NOT NULL, 
	judged_at FLOAT NOT NULL, 
	cost_usd FLOAT, 
	detail TEXT DEFAULT '{}' NOT NULL, 
	CONSTRAINT pk_judgements PRIMARY KEY (id)
);
INSERT INTO judgements VALUES(1,'00000000000000010000000000000064','faithfulness','pass',1.0,'','CODE','local-v1',1796049265.2246351242,NULL,'{"reasons":[]}');
INSERT INTO judgements VALUES(2,'00000000000000010000000000000064','refusal','pass',1.0,'','CODE','local-v1',1796049265.2246351242,NULL,'{"reasons":[]}');
INSERT INTO judgements VALUES(3,'00000000000000010000000000000064','answer_relevance','pass',1.0,'','CODE','local-v1',1796049265.2246351242,NULL,'{"reasons":[]}');
INSERT INTO judgements VALUES(4,'00000000000000010000000000000064','context_relevance','pass',1.0,'','CODE','local-v1',1796049265.2246351242,NULL,'{"reasons":[]}');
INSERT INTO judgements VALUES(5,'00000000000000010000000000000064','citations','not_applicable',NULL,'no citations','CODE','local-v1',1796049265.2246351242,NULL,'{"reasons":["no_citations"]}');
INSERT INTO judgements VALUES(6,'00000000000000010000000000000064','any_failure','pass',0.0,'','CODE','local-v1',1796049265.2246351242,NULL,'{"claims":[{"text":"Files are kept for 30 days [1].","start":0,"end":31,"verdict":"SUPPORTED","unsupported_probability":0.03,"reason":"verbatim","evidence":[{"document_id":"d1","start":0,"end":27,"quote":"Files are kept for 30 days.","where":"context"}],"note":""}],"refusal":"none","answerability":"FULL","candidates_answerability":null,"answer_relevance":1.0,"context_relevance":[1.0],"candidate_relevance":[],"citations":[],"fault":null,"reasons":[],"flags":[]}');
INSERT INTO judgements VALUES(7,'00000000000000020000000000000065','faithfulness','pass',1.0,'','CODE','local-v1',1796049265.2613530158,NULL,'{"reasons":[]}');
INSERT INTO judgements VALUES(8,'00000000000000020000000000000065','refusal','pass',1.0,'','CODE','local-v1',1796049265.2613530158,NULL,'{"reasons":[]}');
INSERT INTO judgements VALUES(9,'00000000000000020000000000000065','answer_relevance','pass',1.0,'','CODE','local-v1',1796049265.2613530158,NULL,'{"reasons":[]}');
INSERT INTO judgements VALUES(10,'00000000000000020000000000000065','context_relevance','pass',1.0,'','CODE','local-v1',1796049265.2613530158,NULL,'{"reasons":[]}');
INSERT INTO judgements VALUES(11,'00000000000000020000000000000065','citations','not_applicable',NULL,'no citations','CODE','local-v1',1796049265.2613530158,NULL,'{"reasons":["no_citations"]}');
INSERT INTO judgements VALUES(12,'00000000000000020000000000000065','any_failure','pass',0.0,'','CODE','local-v1',1796049265.2613530158,NULL,'{"claims":[{"text":"Files are kept for 30 days [1].","start":0,"end":31,"verdict":"SUPPORTED","unsupported_probability":0.03,"reason":"verbatim","evidence":[{"document_id":"d1","start":0,"end":27,"quote":"Files are kept for 30 days.","where":"context"}],"note":""}],"refusal":"none","answerability":"FULL","candidates_answerability":null,"answer_relevance":1.0,"context_relevance":[1.0],"candidate_relevance":[],"citations":[],"fault":null,"reasons":[],"flags":[]}');
INSERT INTO judgements VALUES(13,'00000000000000030000000000000066','faithfulness','pass',1.0,'','CODE','local-v1',1796049265.4006254672,NULL,'{"reasons":[]}');
INSERT INTO judgements VALUES(14,'00000000000000030000000000000066','refusal','pass',1.0,'','CODE','local-v1',1796049265.4006254672,NULL,'{"reasons":[]}');
INSERT INTO judgements VALUES(15,'00000000000000030000000000000066','answer_relevance','pass',1.0,'','CODE','local-v1',1796049265.4006254672,NULL,'{"reasons":[]}');
INSERT INTO judgements VALUES(16,'00000000000000030000000000000066','context_relevance','pass',1.0,'','CODE','local-v1',1796049265.4006254672,NULL,'{"reasons":[]}');
INSERT INTO judgements VALUES(17,'00000000000000030000000000000066','citations','not_applicable',NULL,'no citations','CODE','local-v1',1796049265.4006254672,NULL,'{"reasons":["no_citations"]}');
INSERT INTO judgements VALUES(18,'00000000000000030000000000000066','any_failure','pass',0.0,'','CODE','local-v1',1796049265.4006254672,NULL,'{"claims":[{"text":"Files are kept for 30 days [1].","start":0,"end":31,"verdict":"SUPPORTED","unsupported_probability":0.03,"reason":"verbatim","evidence":[{"document_id":"d1","start":0,"end":27,"quote":"Files are kept for 30 days.","where":"context"}],"note":""}],"refusal":"none","answerability":"FULL","candidates_answerability":null,"answer_relevance":1.0,"context_relevance":[1.0],"candidate_relevance":[],"citations":[],"fault":null,"reasons":[],"flags":[]}');
INSERT INTO judgements VALUES(19,'00000000000000040000000000000067','faithfulness','fail',0.0,'number conflict','CODE','local-v1',1796049265.407787323,NULL,'{"reasons":["number_conflict"]}');
INSERT INTO judgements VALUES(20,'00000000000000040000000000000067','refusal','pass',1.0,'','CODE','local-v1',1796049265.407787323,NULL,'{"reasons":[]}');
INSERT INTO judgements VALUES(21,'00000000000000040000000000000067','answer_relevance','pass',1.0,'','CODE','local-v1',1796049265.407787323,NULL,'{"reasons":[]}');
INSERT INTO judgements VALUES(22,'00000000000000040000000000000067','context_relevance','pass',1.0,'','CODE','local-v1',1796049265.407787323,NULL,'{"reasons":[]}');
INSERT INTO judgements VALUES(23,'00000000000000040000000000000067','citations','not_applicable',NULL,'no citations','CODE','local-v1',1796049265.407787323,NULL,'{"reasons":["no_citations"]}');
INSERT INTO judgements VALUES(24,'00000000000000040000000000000067','any_failure','fail',1.0,'A statement of the answer contradicts the context (number conflict).','CODE','local-v1',1796049265.407787323,NULL,'{"claims":[{"text":"Files are kept for 90 days [1].","start":0,"end":31,"verdict":"CONTRADICTED","unsupported_probability":0.95,"reason":"number_conflict","evidence":[{"document_id":"d1","start":0,"end":27,"quote":"Files are kept for 30 days.","where":"context"}],"note":""}],"refusal":"none","answerability":"FULL","candidates_answerability":null,"answer_relevance":1.0,"context_relevance":[1.0],"candidate_relevance":[],"citations":[],"fault":{"layer":"generation","confidence":0.975,"explanation":"A statement of the answer contradicts the context (number conflict).","evidence":[{"document_id":"d1","start":0,"end":27,"quote":"Files are kept for 30 days.","where":"context"}]},"reasons":["contradicted_claim"],"flags":[]}');
INSERT INTO judgements VALUES(25,'00000000000000050000000000000068','faithfulness','fail',0.0,'number conflict','CODE','local-v1',1796049265.4189124107,NULL,'{"reasons":["number_conflict"]}');
INSERT INTO judgements VALUES(26,'00000000000000050000000000000068','refusal','pass',1.0,'','CODE','local-v1',1796049265.4189124107,NULL,'{"reasons":[]}');
INSERT INTO judgements VALUES(27,'00000000000000050000000000000068','answer_relevance','pass',1.0,'','CODE','local-v1',1796049265.4189124107,NULL,'{"reasons":[]}');
INSERT INTO judgements VALUES(28,'00000000000000050000000000000068','context_relevance','pass',1.0,'','CODE','local-v1',1796049265.4189124107,NULL,'{"reasons":[]}');
INSERT INTO judgements VALUES(29,'00000000000000050000000000000068','citations','not_applicable',NULL,'no citations','CODE','local-v1',1796049265.4189124107,NULL,'{"reasons":["no_citations"]}');
INSERT INTO judgements VALUES(30,'00000000000000050000000000000068','any_failure','fail',1.0,'A statement of the answer contradicts the context (number conflict).','CODE','local-v1',1796049265.4189124107,NULL,'{"claims":[{"text":"Files are kept for 90 days [1].","start":0,"end":31,"verdict":"CONTRADICTED","unsupported_probability":0.95,"reason":"number_conflict","evidence":[{"document_id":"d1","start":0,"end":27,"quote":"Files are kept for 30 days.","where":"context"}],"note":""}],"refusal":"none","answerability":"FULL","candidates_answerability":null,"answer_relevance":1.0,"context_relevance":[1.0],"candidate_relevance":[],"citations":[],"fault":{"layer":"generation","confidence":0.975,"explanation":"A statement of the answer contradicts the context (number conflict).","evidence":[{"document_id":"d1","start":0,"end":27,"quote":"Files are kept for 30 days.","where":"context"}]},"reasons":["contradicted_claim"],"flags":[]}');
INSERT INTO judgements VALUES(31,'00000000000000060000000000000069','faithfulness','fail',0.0,'number conflict','CODE','local-v1',1796049265.428917408,NULL,'{"reasons":["number_conflict"]}');
INSERT INTO judgements VALUES(32,'00000000000000060000000000000069','refusal','pass',1.0,'','CODE','local-v1',1796049265.428917408,NULL,'{"reasons":[]}');
INSERT INTO judgements VALUES(33,'00000000000000060000000000000069','answer_relevance','pass',1.0,'','CODE','local-v1',1796049265.428917408,NULL,'{"reasons":[]}');
INSERT INTO judgements VALUES(34,'00000000000000060000000000000069','context_relevance','pass',1.0,'','CODE','local-v1',1796049265.428917408,NULL,'{"reasons":[]}');
INSERT INTO judgements VALUES(35,'00000000000000060000000000000069','citations','not_applicable',NULL,'no citations','CODE','local-v1',1796049265.428917408,NULL,'{"reasons":["no_citations"]}');
INSERT INTO judgements VALUES(36,'00000000000000060000000000000069','any_failure','fail',1.0,'A statement of the answer contradicts the context (number conflict).','CODE','local-v1',1796049265.428917408,NULL,'{"claims":[{"text":"Files are kept for 90 days [1].","start":0,"end":31,"verdict":"CONTRADICTED","unsupported_probability":0.95,"reason":"number_conflict","evidence":[{"document_id":"d1","start":0,"end":27,"quote":"Files are kept for 30 days.","where":"context"}],"note":""}],"refusal":"none","answerability":"FULL","candidates_answerability":null,"answer_relevance":1.0,"context_relevance":[1.0],"candidate_relevance":[],"citations":[],"fault":{"layer":"generation","confidence":0.975,"explanation":"A statement of the answer contradicts the context (number conflict).","evidence":[{"document_id":"d1","start":0,"end":27,"quote":"Files are kept for 30 days.","where":"context"}]},"reasons":["contradicted_claim"],"flags":[]}');
CREATE TABLE ledger (
	trace_id VARCHAR(32) NOT NULL, 
	app VARCHAR(200) NOT NULL, 
	version VARCHAR(200) NOT NULL, 
	started_at FLOAT NOT NULL, 
	decided_at FLOAT NOT NULL, 
	epoch VARCHAR(64) NOT NULL, 
	stratum VARCHAR(64) NOT NULL, 
	outcome VARCHAR(16) NOT NULL, 
	inclusion_probability FLOAT NOT NULL, 
	u56 BIGINT NOT NULL, 
	salt_version INTEGER NOT NULL, 
	verdict VARCHAR(16) NOT NULL, 
	reason VARCHAR(64) NOT NULL, 
	adjusted_count FLOAT DEFAULT '1' NOT NULL, 
	first_position BIGINT NOT NULL, 
	last_position BIGINT NOT NULL, 
	duration_seconds FLOAT DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_ledger PRIMARY KEY (trace_id)
);
INSERT INTO ledger VALUES('00000000000000010000000000000064','torture','1',1796049261.8676989077,1796049265.0775141715,'fixed-3f805b72-cuts-1','normal_b0','answered',1.0,9065533984109952,1,'sampled','hash',1.0,0,0,0.050000000000000002775);
INSERT INTO ledger VALUES('00000000000000020000000000000065','torture','1',1796049261.8676989077,1796049265.0775141715,'fixed-3f805b72-cuts-1','normal_b0','answered',1.0,49400694659903213,1,'sampled','hash',1.0,0,0,0.050000000000000002775);
INSERT INTO ledger VALUES('00000000000000030000000000000066','torture','1',1796049261.8676989077,1796049265.0775141715,'fixed-3f805b72-cuts-1','normal_b0','answered',1.0,55349701636226075,1,'sampled','hash',1.0,0,0,0.050000000000000002775);
INSERT INTO ledger VALUES('00000000000000040000000000000067','torture','1',1796049261.9082062243,1796049265.0775141715,'fixed-3f805b72-cuts-1','normal_b1','answered',1.0,17070725557336369,1,'sampled','hash',1.0,1416,1416,0.050000000000000002775);
INSERT INTO ledger VALUES('00000000000000050000000000000068','torture','1',1796049261.9082062243,1796049265.0775141715,'fixed-3f805b72-cuts-1','normal_b1','answered',1.0,3383876559045668,1,'sampled','hash',1.0,1416,1416,0.050000000000000002775);
INSERT INTO ledger VALUES('00000000000000060000000000000069','torture','1',1796049261.9082062243,1796049265.0775141715,'fixed-3f805b72-cuts-1','feedback_neg','answered',1.0,54044225027226616,1,'sampled','hash',1.0,1416,1416,0.050000000000000002775);
CREATE TABLE positions (
	name VARCHAR(64) NOT NULL, 
	position BIGINT NOT NULL, 
	CONSTRAINT pk_positions PRIMARY KEY (name)
);
INSERT INTO positions VALUES('pipeline',3012);
CREATE TABLE reviews (
	trace_id VARCHAR(32) NOT NULL, 
	decision VARCHAR(16) NOT NULL, 
	fault_layer VARCHAR(16) DEFAULT '' NOT NULL, 
	note TEXT DEFAULT '' NOT NULL, 
	reviewer VARCHAR(40) NOT NULL, 
	reviewed_at FLOAT NOT NULL, 
	CONSTRAINT pk_reviews PRIMARY KEY (trace_id)
);
CREATE TABLE sampled_traces (
	trace_id VARCHAR(32) NOT NULL, 
	family VARCHAR(8) NOT NULL, 
	payload TEXT NOT NULL, 
	app VARCHAR(200) NOT NULL, 
	version VARCHAR(200) NOT NULL, 
	started_at FLOAT NOT NULL, 
	stratum VARCHAR(64) NOT NULL, 
	inclusion_probability FLOAT NOT NULL, 
	reason VARCHAR(64) NOT NULL, 
	epoch VARCHAR(64) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	lease_until FLOAT DEFAULT '0' NOT NULL, 
	attempts INTEGER DEFAULT '0' NOT NULL, 
	queued_at FLOAT NOT NULL, 
	finished_at FLOAT, 
	CONSTRAINT pk_sampled_traces PRIMARY KEY (trace_id)
);
INSERT INTO sampled_traces VALUES('00000000000000010000000000000064','fast','{"trace_id":"00000000000000010000000000000064","app":"torture","version":"1","started_at":1796049261.867699,"duration_seconds":0.05,"outcome":"answered","outcome_source":"recorded","outcome_reason":"","query":"how long are files kept","rewritten_query":null,"candidates":null,"reranked":null,"context":[{"id":"d1","rank":1,"score":null,"text":"Files are kept for 30 days.","cut":0,"version":null,"title":null}],"answer":"Files are kept for 30 days [1].","citations":[],"error_class":"","retries":0,"stages":[{"name":"context","span_id":"0000000000000064","parent_id":"0000000000000001","label":"context","started_at":1796049261.877699,"duration_seconds":0.01,"status":"unset","error_class":"","attempts":1}],"time_to_first_token_seconds":null,"usage":{"input_tokens":null,"output_tokens":null,"cost_usd":null},"model":"","session":"","user_hash":"","feedback":[],"incomplete":false,"flags":[],"convention":"groundwatch","sources":{"context":"groundwatch.context.documents","query":"input.value","answer":"output.value","outcome":"groundwatch.outcome"},"span_count":2,"project":"","adjusted_count":1.0}','torture','1',1796049261.8676989077,'normal_b0',1.0,'hash','fixed-3f805b72-cuts-1','judged',1796049565.1587131023,1,1796049265.0775141715,1796049265.2248373031);
INSERT INTO sampled_traces VALUES('00000000000000020000000000000065','fast','{"trace_id":"00000000000000020000000000000065","app":"torture","version":"1","started_at":1796049261.867699,"duration_seconds":0.05,"outcome":"answered","outcome_source":"recorded","outcome_reason":"","query":"how long are files kept","rewritten_query":null,"candidates":null,"reranked":null,"context":[{"id":"d1","rank":1,"score":null,"text":"Files are kept for 30 days.","cut":0,"version":null,"title":null}],"answer":"Files are kept for 30 days [1].","citations":[],"error_class":"","retries":0,"stages":[{"name":"context","span_id":"0000000000000065","parent_id":"0000000000000002","label":"context","started_at":1796049261.877699,"duration_seconds":0.01,"status":"unset","error_class":"","attempts":1}],"time_to_first_token_seconds":null,"usage":{"input_tokens":null,"output_tokens":null,"cost_usd":null},"model":"","session":"","user_hash":"","feedback":[],"incomplete":false,"flags":[],"convention":"groundwatch","sources":{"context":"groundwatch.context.documents","query":"input.value","answer":"output.value","outcome":"groundwatch.outcome"},"span_count":2,"project":"","adjusted_count":1.0}','torture','1',1796049261.8676989077,'normal_b0',1.0,'hash','fixed-3f805b72-cuts-1','judged',1796049565.1587131023,1,1796049265.0775141715,1796049265.2615249156);
INSERT INTO sampled_traces VALUES('00000000000000030000000000000066','fast','{"trace_id":"00000000000000030000000000000066","app":"torture","version":"1","started_at":1796049261.867699,"duration_seconds":0.05,"outcome":"answered","outcome_source":"recorded","outcome_reason":"","query":"how long are files kept","rewritten_query":null,"candidates":null,"reranked":null,"context":[{"id":"d1","rank":1,"score":null,"text":"Files are kept for 30 days.","cut":0,"version":null,"title":null}],"answer":"Files are kept for 30 days [1].","citations":[],"error_class":"","retries":0,"stages":[{"name":"context","span_id":"0000000000000066","parent_id":"0000000000000003","label":"context","started_at":1796049261.877699,"duration_seconds":0.01,"status":"unset","error_class":"","attempts":1}],"time_to_first_token_seconds":null,"usage":{"input_tokens":null,"output_tokens":null,"cost_usd":null},"model":"","session":"","user_hash":"","feedback":[],"incomplete":false,"flags":[],"convention":"groundwatch","sources":{"context":"groundwatch.context.documents","query":"input.value","answer":"output.value","outcome":"groundwatch.outcome"},"span_count":2,"project":"","adjusted_count":1.0}','torture','1',1796049261.8676989077,'normal_b0',1.0,'hash','fixed-3f805b72-cuts-1','judged',1796049565.1587131023,1,1796049265.0775141715,1796049265.4008100032);
INSERT INTO sampled_traces VALUES('00000000000000040000000000000067','fast','{"trace_id":"00000000000000040000000000000067","app":"torture","version":"1","started_at":1796049261.9082062,"duration_seconds":0.05,"outcome":"answered","outcome_source":"recorded","outcome_reason":"","query":"how long are files kept","rewritten_query":null,"candidates":null,"reranked":null,"context":[{"id":"d1","rank":1,"score":null,"text":"Files are kept for 30 days.","cut":0,"version":null,"title":null}],"answer":"Files are kept for 90 days [1].","citations":[],"error_class":"","retries":0,"stages":[{"name":"context","span_id":"0000000000000067","parent_id":"0000000000000004","label":"context","started_at":1796049261.918206,"duration_seconds":0.01,"status":"unset","error_class":"","attempts":1}],"time_to_first_token_seconds":null,"usage":{"input_tokens":null,"output_tokens":null,"cost_usd":null},"model":"","session":"","user_hash":"","feedback":[],"incomplete":false,"flags":[],"convention":"groundwatch","sources":{"context":"groundwatch.context.documents","query":"input.value","answer":"output.value","outcome":"groundwatch.outcome"},"span_count":2,"project":"","adjusted_count":1.0}','torture','1',1796049261.9082062243,'normal_b1',1.0,'hash','fixed-3f805b72-cuts-1','judged',1796049565.1587131023,1,1796049265.0775141715,1796049265.4084057807);
INSERT INTO sampled_traces VALUES('00000000000000050000000000000068','fast','{"trace_id":"00000000000000050000000000000068","app":"torture","version":"1","started_at":1796049261.9082062,"duration_seconds":0.05,"outcome":"answered","outcome_source":"recorded","outcome_reason":"","query":"how long are files kept","rewritten_query":null,"candidates":null,"reranked":null,"context":[{"id":"d1","rank":1,"score":null,"text":"Files are kept for 30 days.","cut":0,"version":null,"title":null}],"answer":"Files are kept for 90 days [1].","citations":[],"error_class":"","retries":0,"stages":[{"name":"context","span_id":"0000000000000068","parent_id":"0000000000000005","label":"context","started_at":1796049261.918206,"duration_seconds":0.01,"status":"unset","error_class":"","attempts":1}],"time_to_first_token_seconds":null,"usage":{"input_tokens":null,"output_tokens":null,"cost_usd":null},"model":"","session":"","user_hash":"","feedback":[],"incomplete":false,"flags":[],"convention":"groundwatch","sources":{"context":"groundwatch.context.documents","query":"input.value","answer":"output.value","outcome":"groundwatch.outcome"},"span_count":2,"project":"","adjusted_count":1.0}','torture','1',1796049261.9082062243,'normal_b1',1.0,'hash','fixed-3f805b72-cuts-1','judged',1796049565.1587131023,1,1796049265.0775141715,1796049265.4192948341);
INSERT INTO sampled_traces VALUES('00000000000000060000000000000069','fast','{"trace_id":"00000000000000060000000000000069","app":"torture","version":"1","started_at":1796049261.9082062,"duration_seconds":0.05,"outcome":"answered","outcome_source":"recorded","outcome_reason":"","query":"how long are files kept","rewritten_query":null,"candidates":null,"reranked":null,"context":[{"id":"d1","rank":1,"score":null,"text":"Files are kept for 30 days.","cut":0,"version":null,"title":null}],"answer":"Files are kept for 90 days [1].","citations":[],"error_class":"","retries":0,"stages":[{"name":"context","span_id":"0000000000000069","parent_id":"0000000000000006","label":"context","started_at":1796049261.918206,"duration_seconds":0.01,"status":"unset","error_class":"","attempts":1}],"time_to_first_token_seconds":null,"usage":{"input_tokens":null,"output_tokens":null,"cost_usd":null},"model":"","session":"","user_hash":"","feedback":[{"id":"99540a30da6f22a2585c41be26572b1f","trace_id":"00000000000000060000000000000069","name":"thumbs","sentiment":"negative","score":null,"label":"down","comment":"","by":"","received_at":1796049261.994478}],"incomplete":false,"flags":[],"convention":"groundwatch","sources":{"context":"groundwatch.context.documents","query":"input.value","answer":"output.value","outcome":"groundwatch.outcome"},"span_count":2,"project":"","adjusted_count":1.0}','torture','1',1796049261.9082062243,'feedback_neg',1.0,'hash','fixed-3f805b72-cuts-1','judged',1796049565.1587131023,1,1796049265.0775141715,1796049265.4534947871);
CREATE TABLE traffic_tally (
	bucket_start BIGINT NOT NULL, 
	app VARCHAR(200) NOT NULL, 
	version VARCHAR(200) NOT NULL, 
	stratum VARCHAR(64) NOT NULL, 
	outcome VARCHAR(16) NOT NULL, 
	traces FLOAT NOT NULL, 
	received INTEGER DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_traffic_tally PRIMARY KEY (bucket_start, app, version, stratum, outcome)
);
INSERT INTO traffic_tally VALUES(1796049240,'torture','1','feedback_neg','answered',1.0,1);
INSERT INTO traffic_tally VALUES(1796049240,'torture','1','normal_b0','answered',3.0,3);
INSERT INTO traffic_tally VALUES(1796049240,'torture','1','normal_b1','answered',2.0,2);
CREATE TABLE verdict_tally (
	bucket_start BIGINT NOT NULL, 
	app VARCHAR(200) NOT NULL, 
	version VARCHAR(200) NOT NULL, 
	stratum VARCHAR(64) NOT NULL, 
	criterion VARCHAR(32) NOT NULL, 
	judge VARCHAR(200) NOT NULL, 
	weight FLOAT NOT NULL, 
	fail_weight FLOAT NOT NULL, 
	weight_sq FLOAT NOT NULL, 
	judged INTEGER NOT NULL, 
	failed INTEGER NOT NULL, 
	not_applicable_weight FLOAT NOT NULL, 
	missing_weight FLOAT NOT NULL, 
	CONSTRAINT pk_verdict_tally PRIMARY KEY (bucket_start, app, version, stratum, criterion, judge)
);
INSERT INTO verdict_tally VALUES(1796049240,'torture','1','normal_b0','answer_relevance','local-v1',3.0,0.0,3.0,3,0,0.0,0.0);
INSERT INTO verdict_tally VALUES(1796049240,'torture','1','normal_b0','any_failure','local-v1',3.0,0.0,3.0,3,0,0.0,0.0);
INSERT INTO verdict_tally VALUES(1796049240,'torture','1','normal_b0','citations','local-v1',0.0,0.0,0.0,0,0,3.0,0.0);
INSERT INTO verdict_tally VALUES(1796049240,'torture','1','normal_b0','context_relevance','local-v1',3.0,0.0,3.0,3,0,0.0,0.0);
INSERT INTO verdict_tally VALUES(1796049240,'torture','1','normal_b0','faithfulness','local-v1',3.0,0.0,3.0,3,0,0.0,0.0);
INSERT INTO verdict_tally VALUES(1796049240,'torture','1','normal_b0','refusal','local-v1',3.0,0.0,3.0,3,0,0.0,0.0);
INSERT INTO verdict_tally VALUES(1796049240,'torture','1','normal_b1','answer_relevance','local-v1',2.0,0.0,2.0,2,0,0.0,0.0);
INSERT INTO verdict_tally VALUES(1796049240,'torture','1','normal_b1','any_failure','local-v1',2.0,2.0,2.0,2,2,0.0,0.0);
INSERT INTO verdict_tally VALUES(1796049240,'torture','1','normal_b1','citations','local-v1',0.0,0.0,0.0,0,0,2.0,0.0);
INSERT INTO verdict_tally VALUES(1796049240,'torture','1','normal_b1','context_relevance','local-v1',2.0,0.0,2.0,2,0,0.0,0.0);
INSERT INTO verdict_tally VALUES(1796049240,'torture','1','normal_b1','faithfulness','local-v1',2.0,2.0,2.0,2,2,0.0,0.0);
INSERT INTO verdict_tally VALUES(1796049240,'torture','1','normal_b1','refusal','local-v1',2.0,0.0,2.0,2,0,0.0,0.0);
INSERT INTO verdict_tally VALUES(1796049240,'torture','1','feedback_neg','answer_relevance','local-v1',1.0,0.0,1.0,1,0,0.0,0.0);
INSERT INTO verdict_tally VALUES(1796049240,'torture','1','feedback_neg','any_failure','local-v1',1.0,1.0,1.0,1,1,0.0,0.0);
INSERT INTO verdict_tally VALUES(1796049240,'torture','1','feedback_neg','citations','local-v1',0.0,0.0,0.0,0,0,1.0,0.0);
INSERT INTO verdict_tally VALUES(1796049240,'torture','1','feedback_neg','context_relevance','local-v1',1.0,0.0,1.0,1,0,0.0,0.0);
INSERT INTO verdict_tally VALUES(1796049240,'torture','1','feedback_neg','faithfulness','local-v1',1.0,1.0,1.0,1,1,0.0,0.0);
INSERT INTO verdict_tally VALUES(1796049240,'torture','1','feedback_neg','refusal','local-v1',1.0,0.0,1.0,1,0,0.0,0.0);
CREATE INDEX ix_feedback_trace_id ON feedback (trace_id);
CREATE INDEX ix_judgements_criterion_label ON judgements (criterion, label);
CREATE INDEX ix_judgements_trace_id ON judgements (trace_id);
CREATE INDEX ix_ledger_app_version_started_at ON ledger (app, version, started_at);
CREATE INDEX ix_ledger_started_at ON ledger (started_at);
CREATE INDEX ix_sampled_traces_started_at ON sampled_traces (started_at);
CREATE INDEX ix_sampled_traces_state_queued_at ON sampled_traces (state, queued_at);
COMMIT;
