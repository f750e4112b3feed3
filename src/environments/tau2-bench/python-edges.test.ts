// Calls on which the reference's Python behaves unlike a naive port; found by running random calls
// in both.

import { describe, expect, test } from "vitest";
import { sharedFolder } from "../../../tests/conformance/shared-folder.ts";
import { type JsonObject, parseJson } from "../../python-semantics/json/index.ts";
import { countedIds, loadTau2Data, Tau2World } from "./index.ts";

const folder = sharedFolder("tau2-bench");

const open = async (domain: string): Promise<Tau2World> => {
  const data = await loadTau2Data({ domain, folder: folder! });
  return new Tau2World(data.world, { isSolo: false, createId: countedIds("B") });
};
const json = (text: string): JsonObject => parseJson(text) as JsonObject;

describe.skipIf(folder === null)("τ²-bench as Python has it (skipped without ../shared/tau2-bench)", () => {
  test("a number of bags that is a text is repeated, and then it is not a summand", async () => {
    const world = await open("airline");
    const answer = world.answer({
      id: "",
      name: "book_reservation",
      requestor: "assistant",
      arguments: json(`{"user_id": "mia_li_3668", "origin": "JFK", "destination": "SEA", "flight_type": "one_way",
        "cabin": "economy", "flights": [], "passengers": [], "payment_methods": [], "total_baggages": 0,
        "nonfree_baggages": "0", "insurance": "no"}`),
    });
    expect(answer).toEqual({ content: "Error: unsupported operand type(s) for +=: 'int' and 'str'", isError: true });
  });

  test("a contract has ended where the argument is true in Python's sense", async () => {
    const world = await open("telecom");
    const given = json('{"customer_id": "C1001", "line_id": "L1001", "new_bill_id": "B9", "contract_ended": "yes"}');
    world.run({ side: "assistant", name: "suspend_line_for_overdue_bill", arguments: given });
    expect(world.agent.read("lines", "L1001")!.get("contract_end_date")).toBe("2025-01-31");
  });

  test("a speed is compared with a number alone", async () => {
    const world = await open("telecom");
    const assertion = {
      side: "user",
      name: "assert_internet_speed",
      arguments: json('{"expected_speed": "5"}'),
    } as const;
    expect(() => world.run(assertion)).toThrow("'>=' not supported between instances of 'float' and 'str'");
  });

  test("a notification goes nowhere where both sides have come to share the agent's data", async () => {
    const world = await open("mock");
    world.setState({ agentData: new Map(), userData: null, actions: [] }, []);
    const given = json('{"notification_id": "n", "message": "m"}');
    expect(() => world.run({ side: "user", name: "add_notification", arguments: given })).toThrow(
      "'MockDB' object has no attribute 'notifications'",
    );
  });
});
