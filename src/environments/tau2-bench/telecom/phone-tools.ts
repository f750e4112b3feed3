// The customer's tools: reading and changing the phone's settings, and paying. Refusals are
// ordinary answers. After a change, the answer shows the status bar. Initial states break settings
// with methods that are not tools.

import { isTruthy, PythonError, pythonRepr, pythonStr, stringRepr } from "../../../python-semantics/index.ts";
import type { JsonObject } from "../../../python-semantics/json/index.ts";
import { attributeError, field, lower, objectField } from "../../tables/index.ts";
import type { Database } from "../database.ts";
import { defineTool, defineToolkit, fixed, type Method } from "../toolkit.ts";
import {
  attribute,
  canSendPictures,
  connectVpn,
  disconnectVpn,
  dropWifi,
  editApn,
  editPermissions,
  editPhone,
  editSurroundings,
  enumText,
  findApp,
  isOn,
  measureSpeed,
  onOff,
  phoneOf,
  searchNetwork,
  simStatus,
  statusBar,
  surroundingsOf,
  toggle,
  toggleAirplaneMode,
} from "./phone.ts";
import { phoneMethods } from "./phone-methods.ts";
import { apnSettings, networkModes } from "./telecom-models.ts";

const yesNo = (value: boolean): string => (value ? "Yes" : "No");
const withBar = (user: Database, message: string): string => `${message}\nStatus Bar: ${statusBar(user)}`;

/** A tool without arguments that reads the phone. */
function look(name: string, show: (user: Database) => string): Method {
  return defineTool("read", { name, parameters: [], run: ({ user }) => show(user) });
}

/** A tool without arguments that changes the phone, and shows the status bar. */
function change(name: string, act: (user: Database) => string): Method {
  return defineTool("write", { name, parameters: [], run: ({ user }) => withBar(user, act(user)) });
}

/** A tool that flips a switch. */
function toggleTool(
  name: string,
  key: string,
  options: { readonly label: string; readonly searches: boolean },
): Method {
  return change(name, (user) => `${options.label} is now ${onOff(toggle(user, key, options))}.`);
}

const simTexts: Readonly<Record<string, string>> = {
  active: "Your SIM card is active and working.",
  missing: "No SIM card detected in the phone.",
  locked_pin: "The SIM card is locked with a PIN code.",
  locked_puk: "The SIM card is locked with a PUK code.",
};

const advice: Readonly<Record<string, string>> = {
  "Very Poor": "Connection is very slow. Basic web browsing might be difficult.",
  Poor: "Connection is slow. Web browsing may be sluggish, streaming difficult.",
  Fair: "Connection is okay for web browsing and some standard definition streaming.",
  Good: "Connection is good for most activities, including HD streaming.",
  Excellent: "Connection is very fast.",
};

const looks = [
  look("check_status_bar", (user) => `Status Bar: ${statusBar(user)}`),
  look("check_network_status", (user) => {
    const phone = phoneOf(user);
    const isConnected = isOn(phone, "wifi_connected");
    const lines = [
      `Airplane Mode: ${onOff(isOn(phone, "airplane_mode"))}`,
      `SIM Card Status: ${simStatus(phone)}`,
      `Cellular Connection: ${enumText(field(phone, "network_connection_status"))}`,
      `Cellular Signal: ${enumText(field(phone, "network_signal_strength"))}`,
      `Cellular Network Type: ${enumText(field(phone, "network_technology_connected"))}`,
      `Mobile Data Enabled: ${yesNo(isOn(phone, "data_enabled"))}`,
      `Data Roaming Enabled: ${yesNo(isOn(phone, "roaming_enabled"))}`,
      `Wi-Fi Radio: ${onOff(isOn(phone, "wifi_enabled"))}`,
      `Wi-Fi Connected: ${yesNo(isConnected)}`,
    ];
    if (isConnected) lines.push(`Connected Wi-Fi Network: ${pythonStr(field(phone, "wifi_ssid"))}`);
    return lines.join("\n");
  }),
  look(
    "check_network_mode_preference",
    (user) => `Network Mode Preference: ${enumText(field(phoneOf(user), "network_mode_preference"))}`,
  ),
  look("run_speed_test", (user) => {
    const measured = measureSpeed(user);
    if (measured === null) return "Speed test failed: No Connection.";
    const { speed, label } = measured;
    return `Speed Test Result: ${fixed(speed, 2)} Mbps (${label}). ${advice[label]}`;
  }),
  look("check_sim_status", (user) => simTexts[simStatus(phoneOf(user))]!),
  look("check_data_restriction_status", (user) =>
    isOn(phoneOf(user), "data_saver_mode") ? "Data Saver mode is ON (limits data usage)." : "Data Saver mode is OFF.",
  ),
  look("check_apn_settings", (user) => {
    const settings = field(phoneOf(user), "active_apn_settings");
    if (!(settings instanceof Map)) throw attributeError(settings, "model_copy");
    const url = field(settings, "mmsc_url");
    const lines = [
      `Current APN Name: ${enumText(field(settings, "apn_name"))}`,
      `MMSC URL (for picture messages): ${isTruthy(url) ? pythonStr(url) : "Not Set"}`,
      "(These are technical settings, usually best left unchanged.)",
    ];
    return lines.join("\n");
  }),
  look("check_wifi_status", (user) => {
    const phone = phoneOf(user);
    if (!isOn(phone, "wifi_enabled")) return "Wi-Fi is turned OFF.";
    if (!isOn(phone, "wifi_connected")) return "Wi-Fi is ON but not connected to any network.";
    const name = pythonStr(field(phone, "wifi_ssid"));
    return `Wi-Fi is ON and connected to '${name}'. Signal strength: ${enumText(field(phone, "wifi_signal_strength"))}.`;
  }),
  look(
    "check_wifi_calling_status",
    (user) => `Wi-Fi Calling is currently turned ${onOff(isOn(phoneOf(user), "wifi_calling_enabled"))}.`,
  ),
  look("check_vpn_status", (user) => {
    const phone = phoneOf(user);
    if (isOn(phone, "vpn_connected")) {
      const details = field(phone, "vpn_details");
      if (!(details instanceof Map)) return "VPN is ON and connected (no specific details available).";
      return `VPN is ON and connected. Details: ${detailsText(details)}`;
    }
    return isOn(phone, "vpn_enabled_setting")
      ? "VPN is turned ON in settings, but currently not connected."
      : "VPN is turned OFF.";
  }),
  look("check_installed_apps", (user) => {
    const apps = [...objectField(phoneOf(user), "app_statuses").keys()];
    return `The following apps are installed on the phone: ${apps.join(", ")}`;
  }),
  look("can_send_mms", (user) =>
    canSendPictures(user)
      ? "Your messaging app can send MMS messages."
      : "Your messaging app cannot send MMS messages.",
  ),
  look("check_payment_request", (user) => {
    const request = field(surroundingsOf(user), "payment_request");
    if (!(request instanceof Map)) return "No payment request has been made.";
    const amount = pythonStr(field(request, "amount_due"));
    return `You have a payment request for bill ${pythonStr(field(request, "bill_id"))} of ${amount} USD.`;
  }),
];

/** The details as Python prints a dict with a member of an enumeration. */
function detailsText(details: JsonObject): string {
  const parts = Array.from(details, ([key, value]) => {
    if (key !== "server_performance") return `${stringRepr(key)}: ${pythonRepr(value)}`;
    const member = enumText(value);
    return `${stringRepr(key)}: <PerformanceLevel.${member.toUpperCase()}: ${stringRepr(member)}>`;
  });
  return `{${parts.join(", ")}}`;
}

function grantedPermissions(app: JsonObject): string[] {
  return [...objectField(app, "permissions")].filter(([, isGranted]) => isTruthy(isGranted)).map(([name]) => name);
}

const appTools = [
  defineTool("read", {
    name: "check_app_status",
    parameters: ["app_name"],
    run: ({ user }, { app_name }) => {
      const app = findApp(user, app_name);
      if (app === null) return `App '${pythonStr(app_name)}' not found on this phone.`;
      const granted = grantedPermissions(app);
      const lines =
        granted.length === 0
          ? [" - Permissions: None granted."]
          : [" - Permissions Granted:", ...granted.map((permission) => `   - ${permission}`)];
      return [`Status for App: ${pythonStr(app_name)}`, ...lines].join("\n");
    },
  }),
  defineTool("read", {
    name: "check_app_permissions",
    parameters: ["app_name"],
    run: ({ user }, { app_name }) => {
      const app = findApp(user, app_name);
      const name = pythonStr(app_name);
      if (app === null) return `App '${name}' not found on this phone.`;
      const granted = grantedPermissions(app);
      if (granted.length === 0) return `App '${name}' currently has no permissions granted.`;
      return `App '${name}' has permission for: ${granted.join(", ")}.`;
    },
  }),
  defineTool("write", {
    name: "grant_app_permission",
    parameters: ["app_name", "permission"],
    run: ({ user }, { app_name, permission }) => {
      const app = findApp(user, app_name);
      const key = lower(permission);
      const name = pythonStr(app_name);
      if (app === null) return withBar(user, `Error. App '${name}' not found. Cannot grant permission.`);
      const known = [...objectField(app, "permissions").keys()];
      if (!known.includes(key)) {
        const available = `available permissions: ${pythonRepr(known)}`;
        return withBar(user, `Error. Permission '${key}' not tracked for app '${name}', ${available}`);
      }
      editPermissions(user, app_name).set(key, true);
      return withBar(user, `Success. Permission '${key}' granted to app '${name}'.`);
    },
  }),
];

const setNetworkMode = defineTool("write", {
  name: "set_network_mode_preference",
  parameters: ["mode"],
  run: ({ user }, { mode }) => {
    const isUnknown = typeof mode === "string" && !networkModes.some((known) => known === mode);
    if (!isUnknown) {
      // A value that is not a string is stored before it is found to be invalid.
      editPhone(user).set("network_mode_preference", mode);
      searchNetwork(user);
    }
    if (isUnknown || mode === null) {
      const options = `Please use one of: ${networkModes.join(", ")}`;
      return withBar(user, `Failed to set network mode: '${pythonStr(mode)}' is not a valid option. ${options}`);
    }
    return withBar(user, `Preferred Network Mode set to: ${enumText(mode)}`);
  },
});

const setApnSettings = defineTool("write", {
  name: "set_apn_settings",
  parameters: ["apn_settings"],
  run: ({ user }, { apn_settings }) => {
    const settings = apn_settings instanceof Map ? apnSettings.read(apn_settings, "APNSettings") : apn_settings;
    editPhone(user).set("active_apn_settings", settings);
    const name = enumText(attribute(settings, "apn_name"));
    searchNetwork(user);
    return withBar(user, `APN settings set to: ${name}`);
  },
});

const changes = [
  setNetworkMode,
  change("toggle_airplane_mode", (user) => `Airplane Mode is now ${onOff(toggleAirplaneMode(user))}.`),
  change("reseat_sim_card", (user) => {
    editPhone(user).set("sim_card_missing", false);
    searchNetwork(user);
    if (simStatus(phoneOf(user)) === "missing") throw new PythonError("AssertionError", "");
    return "SIM card re-seated successfully.";
  }),
  toggleTool("toggle_data", "data_enabled", { label: "Mobile Data", searches: true }),
  toggleTool("toggle_roaming", "roaming_enabled", { label: "Data Roaming", searches: true }),
  toggleTool("toggle_data_saver_mode", "data_saver_mode", { label: "Data Saver Mode", searches: false }),
  setApnSettings,
  change("reset_apn_settings", (user) => {
    editApn(user, "reset_at_reboot").set("reset_at_reboot", true);
    searchNetwork(user);
    return "APN settings will reset at reboot.";
  }),
  change("toggle_wifi", (user) => {
    if (isOn(phoneOf(user), "airplane_mode")) return "Cannot change Wi-Fi settings while Airplane Mode is ON.";
    const isNowOn = toggle(user, "wifi_enabled", { searches: false });
    if (!isNowOn) dropWifi(editPhone(user));
    return `Wi-Fi is now ${onOff(isNowOn)}.`;
  }),
  toggleTool("toggle_wifi_calling", "wifi_calling_enabled", { label: "Wi-Fi Calling", searches: false }),
  defineTool("write", {
    name: "connect_vpn",
    parameters: [],
    run: ({ user }) => (connectVpn(user) ? withBar(user, "VPN connected successfully.") : "VPN already connected."),
  }),
  change("disconnect_vpn", (user) =>
    disconnectVpn(user) ? "VPN disconnected successfully." : "No active VPN connection to disconnect.",
  ),
  change("reboot_device", (user) => {
    const lines: string[] = [];
    if (isTruthy(attribute(field(phoneOf(user), "active_apn_settings"), "reset_at_reboot"))) {
      lines.push("Resetting APN settings...");
      editPhone(user).set("active_apn_settings", apnSettings.make({}));
    }
    editPhone(user).set("network_connection_status", "searching");
    searchNetwork(user);
    return [...lines, "Restarting network services..."].join("\n");
  }),
  defineTool("write", {
    name: "make_payment",
    parameters: [],
    run: ({ user }) => {
      if (field(surroundingsOf(user), "payment_request") === null) return "You do not have a payment request.";
      const request = objectField(editSurroundings(user), "payment_request").set("paid", true);
      const amount = pythonStr(field(request, "amount_due"));
      return `Payment of ${amount} USD has been made for bill ${pythonStr(field(request, "bill_id"))}.`;
    },
  }),
];

export const phoneToolkit = defineToolkit("TelecomUserTools", [...looks, ...changes, ...appTools, ...phoneMethods]);
