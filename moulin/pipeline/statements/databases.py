"""CREATE, DROP, COMMENT ON and ALTER of databases."""

from __future__ import annotations

from moulin.errors import NotFound, Unsupported
from moulin.pipeline.sql.catalyst import LogicalPlan, texts
from moulin.pipeline.sql.resolver import databases_like
from moulin.pipeline.statements.answer import Answer, nothing
from moulin.pipeline.statements.definitions import COMMENT
from moulin.pipeline.statements.session import Session
from moulin.pipeline.statements.spelling import database_of


def create(session: Session, plan: LogicalPlan) -> Answer:
    """CREATE DATABASE | SCHEMA [IF NOT EXISTS] d [COMMENT '...'] [WITH DBPROPERTIES (...)]"""
    name, properties = database_of(session, plan.name()), texts(plan.properties())
    if "location" in properties:
        raise Unsupported("The lake chooses the location of a database: remove LOCATION.")
    session.lake.create_database(name, properties=properties, if_not_exists=plan.ifNotExists())
    return nothing()


def drop(session: Session, plan: LogicalPlan) -> Answer:
    """DROP DATABASE | SCHEMA [IF EXISTS] d [CASCADE]"""
    name = database_of(session, plan.namespace())
    if name not in databases_like(session.lake, name):
        if plan.ifExists():
            return nothing()
        raise NotFound(f"Database {name!r} does not exist.")
    session.lake.drop_database(name, cascade=plan.cascade())
    return nothing()


def comment(session: Session, plan: LogicalPlan) -> Answer:
    """COMMENT ON DATABASE d IS 'text' | NULL"""
    text = plan.comment()
    catalog, name = session.lake.own_catalog(), database_of(session, plan.child())
    catalog.set_database_properties(name, {COMMENT: text} if text else {}, () if text else (COMMENT,))
    return nothing()


def set_properties(session: Session, plan: LogicalPlan) -> Answer:
    """ALTER DATABASE d SET DBPROPERTIES (...)"""
    name = database_of(session, plan.namespace())
    session.lake.own_catalog().set_database_properties(name, texts(plan.properties()))
    return nothing()
