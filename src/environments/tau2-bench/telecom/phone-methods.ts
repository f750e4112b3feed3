// Methods of the customer's side that are not tools: initial states change the phone with them, and
// assertions check it.

import {
  isOrdered,
  isTruthy,
  pythonEquals,
  pythonRepr,
  pythonStr,
  valueError,
} from "../../../python-semantics/index.ts";
import { JsonFloat, type JsonValue } from "../../../python-semantics/json/index.ts";
import { attributeError, field, lower, objectField } from "../../tables/index.ts";
import type { Database } from "../database.ts";
import { defineMethod, type Method } from "../toolkit.ts";
import {
  canSendPictures,
  connectVpn,
  editApn,
  editPermissions,
  editPhone,
  editSurroundings,
  findApp,
  isDataWorking,
  measureSpeed,
  onOff,
  phoneOf,
  searchNetwork,
  surroundingsOf,
  toggle,
  toggleAirplaneMode,
} from "./phone.ts";

/**
 * A method that sets a switch by flipping it: twice if it is already in that state, because
 * flipping has side effects.
 */
function forceMethod(
  name: string,
  flip: (user: Database) => boolean,
  target: { readonly state: boolean; readonly message: string },
): Method {
  return defineMethod({
    name,
    parameters: [],
    run: ({ user }) => {
      if (flip(user) !== target.state) flip(user);
      return target.message;
    },
  });
}

const breaks = [
  defineMethod({
    name: "remove_app_permission",
    parameters: ["app_name", "permission"],
    run: ({ user }, { app_name, permission }) => {
      const app = findApp(user, app_name);
      const key = lower(permission);
      const name = pythonStr(app_name);
      if (app === null) return [false, `App '${name}' not found. Cannot remove permission.`];
      if (!objectField(app, "permissions").has(key))
        return [false, `Permission '${key}' not tracked for app '${name}'.`];
      editPermissions(user, app_name).set(key, false);
      return [true, `Permission '${key}' removed from app '${name}'.`];
    },
  }),

  defineMethod({
    name: "set_user_info",
    parameters: ["name", "phone_number"],
    run: ({ user }, { name, phone_number }) => {
      editSurroundings(user).set("name", name).set("phone_number", phone_number);
      return null;
    },
  }),
  defineMethod({
    name: "set_user_location",
    parameters: ["abroad"],
    run: ({ user }, { abroad }) => {
      editSurroundings(user).set("is_abroad", abroad);
      return null;
    },
  }),
  forceMethod("turn_airplane_mode_on", toggleAirplaneMode, { state: true, message: "Airplane Mode is now ON." }),
  forceMethod("turn_airplane_mode_off", toggleAirplaneMode, { state: false, message: "Airplane Mode is now OFF." }),
  defineMethod({
    name: "turn_data_on",
    parameters: [],
    run: ({ user }) => {
      editPhone(user).set("data_enabled", true);
      return "Data connection restored.";
    },
  }),
  forceMethod("turn_data_off", (user) => toggle(user, "data_enabled", { searches: true }), {
    state: false,
    message: "Data connection broken.",
  }),
  ...(["on", "off"] as const).flatMap((state) => [
    forceMethod(`turn_roaming_${state}`, (user) => toggle(user, "roaming_enabled", { searches: true }), {
      state: state === "on",
      message: `Data Roaming is now ${onOff(state === "on")}.`,
    }),
    forceMethod(`turn_data_saver_mode_${state}`, (user) => toggle(user, "data_saver_mode", { searches: false }), {
      state: state === "on",
      message: `Data Saver Mode is now ${onOff(state === "on")}.`,
    }),
  ]),
  defineMethod({
    name: "simulate_network_search",
    parameters: [],
    run: ({ user }) => {
      searchNetwork(user);
      return null;
    },
  }),
  defineMethod({
    name: "unseat_sim_card",
    parameters: [],
    run: ({ user }) => {
      editPhone(user).set("sim_card_missing", true);
      searchNetwork(user);
      return "SIM card un-seated successfully.";
    },
  }),
  defineMethod({
    name: "lock_sim_card",
    parameters: ["mode"],
    run: ({ user }, { mode }) => {
      if (mode === "pin" || mode === "puk") editPhone(user).set("sim_card_status", `locked_${mode}`);
      searchNetwork(user);
      return `SIM card locked successfully in ${pythonStr(mode)} mode.`;
    },
  }),
  defineMethod({
    name: "break_apn_settings",
    parameters: [],
    run: ({ user }) => {
      editApn(user, "apn_name").set("apn_name", "broken");
      searchNetwork(user);
      return "APN settings broken. Please call reset_apn_settings() to fix.";
    },
  }),
  defineMethod({
    name: "break_apn_mms_setting",
    parameters: [],
    run: ({ user }) => {
      editApn(user, "mmsc_url").set("mmsc_url", null);
      return "APN MMS setting broken. Please call reset_apn_settings() to fix.";
    },
  }),
  defineMethod({
    name: "set_wifi_calling",
    parameters: ["enabled", ["mms_over_wifi", null]],
    run: ({ user }, { enabled, mms_over_wifi }) => {
      const isSame = pythonEquals(field(phoneOf(user), "wifi_calling_enabled"), enabled);
      if (!isSame) toggle(user, "wifi_calling_enabled", { searches: false });
      const first = `Wi-Fi Calling is now ${onOff(isTruthy(enabled))}.`;
      if (mms_over_wifi === null) return first;
      editPhone(user).set("wifi_calling_mms_over_wifi", mms_over_wifi);
      return `${first}\nMMS over Wi-Fi is now ${onOff(isTruthy(mms_over_wifi))}.`;
    },
  }),
  defineMethod({
    name: "break_vpn",
    parameters: [],
    run: ({ user }) => {
      connectVpn(user);
      const details = field(editPhone(user), "vpn_details");
      if (!(details instanceof Map)) throw attributeError(details, "server_performance");
      details.set("server_performance", "poor");
      return "VPN connection broken.";
    },
  }),
];

/** An assertion about one value. */
function expects(name: string, valueOf: (user: Database) => JsonValue): Method {
  return defineMethod({
    name,
    parameters: ["expected_status"],
    run: ({ user }, { expected_status }) => pythonEquals(valueOf(user), expected_status),
  });
}

const assertions = [
  expects("assert_airplane_mode_status", (user) => field(phoneOf(user), "airplane_mode")),
  defineMethod({
    name: "assert_service_status",
    parameters: ["expected_status"],
    run: ({ user }, { expected_status }) => {
      if (!["connected", "searching", "no_service", "emergency_only"].some((known) => known === expected_status)) {
        throw valueError(`${pythonRepr(expected_status)} is not a valid NetworkStatus`);
      }
      return field(phoneOf(user), "network_connection_status") === expected_status;
    },
  }),
  expects("assert_mobile_data_status", isDataWorking),
  expects("assert_mobile_roaming_status", (user) => field(phoneOf(user), "roaming_enabled")),
  expects("assert_mobile_data_saver_mode_status", (user) => field(phoneOf(user), "data_saver_mode")),
  expects("assert_can_send_mms", canSendPictures),
  expects("assert_mobile_data_usage_exceeded", (user) => field(surroundingsOf(user), "mobile_data_usage_exceeded")),
  defineMethod({
    name: "assert_internet_speed",
    parameters: ["expected_speed", ["expected_desc", null]],
    run: ({ user }, { expected_speed, expected_desc }) => {
      const measured = measureSpeed(user);
      const isFast = isOrdered(">=", new JsonFloat(measured?.speed ?? 0), expected_speed);
      if (expected_desc === null || !isFast) return isFast;
      return (measured?.label ?? "No Connection").toLowerCase() === lower(expected_desc);
    },
  }),
  defineMethod({
    name: "assert_internet_not_excellent",
    parameters: [],
    run: ({ user }) => measureSpeed(user)?.label !== "Excellent",
  }),
];

/** Methods of the phone's toolkit that are not tools. */
export const phoneMethods: readonly Method[] = [...breaks, ...assertions];
