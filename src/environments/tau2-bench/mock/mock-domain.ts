// The reference's smallest domain, which its own tests use: a team's tasks, and an inbox of the
// user.

import { pythonEquals, pythonStr } from "../../../python-semantics/index.ts";
import type { JsonValue } from "../../../python-semantics/json/index.ts";
import { field, lengthOf, listField } from "../../tables/index.ts";
import {
  defineMethod,
  defineTool,
  defineToolkit,
  type Domain,
  ModelResult,
  requireId,
  transferTool,
} from "../toolkit.ts";
import type { Database } from "../database.ts";
import { defaulted, defineModel, listOf, oneOf, optional, text } from "../schema.ts";

const task = defineModel("Task", {
  task_id: text,
  title: text,
  description: optional(text),
  status: oneOf("pending", "completed"),
});

const user = defineModel("User", { user_id: text, name: text, tasks: listOf(text) });

const notification = defineModel(
  "Notification",
  {
    notification_id: text,
    message: text,
    status: defaulted(oneOf("unread", "read"), "unread"),
    task_id: optional(text),
  },
  { extra: "forbid" },
);

/** The id of a record; raises if it does not exist. */
function requireKey(database: Database, table: string, id: JsonValue, noun: string): string {
  return requireId(database, table, id, `${noun} ${pythonStr(id)} not found`);
}

const agent = defineToolkit("MockTools", [
  defineTool("write", {
    name: "create_task",
    parameters: ["user_id", "title", ["description", null]],
    run: ({ agent: database }, { user_id, title, description }) => {
      const owner = requireKey(database, "users", user_id, "User");
      const count = [...database.records("tasks")].length;
      const id = `task_${count + 1}`;
      const record = task.make({ task_id: id, title, description, status: "pending" });
      database.put("tasks", id, record);
      listField(database.edit("users", owner), "tasks").push(id);
      return new ModelResult(record);
    },
  }),
  defineTool("read", {
    name: "get_users",
    parameters: [],
    run: ({ agent: database }) => Array.from(database.records("users"), ([, record]) => new ModelResult(record)),
  }),
  defineTool("write", {
    name: "update_task_status",
    parameters: ["task_id", "status"],
    run: ({ agent: database }, { task_id, status }) => {
      const id = requireKey(database, "tasks", task_id, "Task");
      const record = database.edit("tasks", id);
      // The status is stored unchecked, because the reference does not validate assignments.
      record.set("status", status);
      return new ModelResult(record);
    },
  }),
  transferTool,
  defineMethod({
    name: "assert_number_of_tasks",
    parameters: ["user_id", "expected_number"],
    run: ({ agent: database }, { user_id, expected_number }) => {
      const record = database.read("users", requireKey(database, "users", user_id, "User"))!;
      return pythonEquals(lengthOf(field(record, "tasks")), expected_number);
    },
  }),
  defineMethod({
    name: "assert_task_status",
    parameters: ["task_id", "expected_status"],
    run: ({ agent: database }, { task_id, expected_status }) => {
      const record = database.read("tasks", requireKey(database, "tasks", task_id, "Task"))!;
      return pythonEquals(field(record, "status"), expected_status);
    },
  }),
]);

const inbox = defineToolkit("MockUserTools", [
  defineTool("read", {
    name: "check_notifications",
    parameters: [],
    run: ({ user: database }) => Array.from(database.records("notifications"), ([, record]) => new ModelResult(record)),
  }),
  defineTool("write", {
    name: "dismiss_notification",
    parameters: ["notification_id"],
    run: ({ user: database }, { notification_id }) => {
      const id = requireKey(database, "notifications", notification_id, "Notification");
      database.edit("notifications", id).set("status", "read");
      return `Notification ${id} dismissed`;
    },
  }),
  defineMethod({
    name: "add_notification",
    parameters: ["notification_id", "message", ["task_id", null]],
    run: ({ user: database }, given) => {
      const record = notification.make(given);
      // Raises if the table does not exist, because the two sides may have come to share a database
      // without it.
      database.base.table("notifications");
      database.put("notifications", record.get("notification_id") as string, record);
      return new ModelResult(record);
    },
  }),
  defineMethod({
    name: "assert_notification_status",
    parameters: ["notification_id", "expected_status"],
    run: ({ user: database }, { notification_id, expected_status }) => {
      const id = requireKey(database, "notifications", notification_id, "Notification");
      return pythonEquals(field(database.read("notifications", id)!, "status"), expected_status);
    },
  }),
]);

export const mockDomain: Domain = {
  name: "mock",
  folder: "mock",
  agent: {
    toolkit: agent,
    database: {
      name: "MockDB",
      tables: { tasks: { kind: "dict", model: task }, users: { kind: "dict", model: user } },
    },
    file: "db.json",
  },
  user: {
    toolkit: inbox,
    database: {
      name: "MockUserDB",
      tables: { notifications: { kind: "dict", model: notification, canBeAbsent: true } },
    },
    file: "user_db.json",
  },
  sync: null,
  knowledge: null,
  soloRefusal: null,
  policy: { files: ["policy.md"], soloFiles: ["policy_solo.md"], assemble: ([policy]) => policy! },
};
