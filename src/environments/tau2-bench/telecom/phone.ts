// The customer's phone and its surroundings: the search for a network, the conditions for data and
// picture messages, the speed, and the status bar. Reads and changes only the user's database.
// Tools are in `phone-tools.ts`.

import { isTruthy, pythonStr, roundFloat } from "../../../python-semantics/index.ts";
import type { JsonObject, JsonValue } from "../../../python-semantics/json/index.ts";
import { asKey, attributeError, field, objectField } from "../../tables/index.ts";
import type { Database } from "../database.ts";
import { vpnDetails } from "./telecom-models.ts";

/** The phone's record, for reading only. */
export const phoneOf = (user: Database): JsonObject => user.read("device", "")!;
export const editPhone = (user: Database): JsonObject => user.edit("device", "");
export const surroundingsOf = (user: Database): JsonObject => user.read("surroundings", "")!;
export const editSurroundings = (user: Database): JsonObject => user.edit("surroundings", "");

/** Text of a switch's state. */
export const onOff = (value: boolean): string => (value ? "ON" : "OFF");

export const isOn = (record: JsonObject, key: string): boolean => isTruthy(field(record, key));

/** `value.name` of a model; tools may have stored another value instead. */
export function attribute(value: JsonValue, name: string): JsonValue {
  if (value instanceof Map && value.has(name)) return value.get(name)!;
  throw attributeError(value, name);
}

/** The text of an enumeration's member: Python's `value.value`. */
export function enumText(value: JsonValue): string {
  if (typeof value === "string") return value;
  throw attributeError(value, "value");
}

export function simStatus(phone: JsonObject): string {
  return isOn(phone, "sim_card_missing") ? "missing" : enumText(field(phone, "sim_card_status"));
}

const technologies: ReadonlyMap<JsonValue, string> = new Map([
  ["4g_only", "4G"],
  ["3g_only", "3G"],
  ["2g_only", "2G"],
]);

/** Searches for a network, as the phone does after most changes. */
export function searchNetwork(user: Database): void {
  const surroundings = surroundingsOf(user);
  const signals = objectField(surroundings, "signal_strength");
  const signalOf = (technology: string): JsonValue => signals.get(technology) ?? "none";
  const phone = editPhone(user);
  const connect = (status: string, technology: string, signal: JsonValue): void => {
    phone.set("network_connection_status", status);
    phone.set("network_technology_connected", technology);
    phone.set("network_signal_strength", signal);
  };
  if (simStatus(phone) === "active") {
    const preference = field(phone, "network_mode_preference");
    const prefersNewest = preference === "4g_5g_preferred" && signalOf("5G") !== "none";
    const technology = prefersNewest ? "5G" : (technologies.get(preference) ?? "4G");
    connect("connected", technology, signalOf(technology));
  } else connect("no_service", "none", "none");
  if (isOn(phone, "airplane_mode")) connect("no_service", "none", "none");
  const apn = attribute(field(phone, "active_apn_settings"), "apn_name");
  if (apn === "broken") connect("no_service", "none", "none");
  if (!isOn(surroundings, "line_active")) connect("no_service", "none", "none");
}

export function isDataWorking(user: Database): boolean {
  const phone = phoneOf(user);
  const surroundings = surroundingsOf(user);
  if (isOn(phone, "airplane_mode") || field(phone, "network_signal_strength") === "none") return false;
  if (field(phone, "network_connection_status") === "no_service") return false;
  const isRoaming = isOn(phone, "roaming_enabled") && isOn(surroundings, "roaming_allowed");
  if (isOn(surroundings, "is_abroad") && !isRoaming) return false;
  return isOn(phone, "data_enabled") && !isOn(surroundings, "mobile_data_usage_exceeded");
}

export function canSendPictures(user: Database): boolean {
  const phone = phoneOf(user);
  if (!isDataWorking(user) || field(phone, "network_technology_connected") === "2G") return false;
  if (isOn(phone, "wifi_calling_enabled") && isOn(phone, "wifi_calling_mms_over_wifi")) return false;
  if (attribute(field(phone, "active_apn_settings"), "mmsc_url") === null) return false;
  const app = objectField(phone, "app_statuses").get("messaging");
  if (!(app instanceof Map)) return false;
  const permissions = objectField(app, "permissions");
  return isOn(permissions, "storage") && isOn(permissions, "sms");
}

/** Lowest and highest speed in Mbps, by technology. */
const speeds: ReadonlyMap<JsonValue, readonly [number, number]> = new Map([
  ["2G", [0.1, 0.4]],
  ["3G", [1, 5]],
  ["4G", [10, 100]],
  ["5G", [50, 500]],
]);

const signalFactors: ReadonlyMap<JsonValue, number> = new Map([
  ["poor", 0.2],
  ["fair", 0.5],
  ["good", 0.8],
  ["excellent", 1],
]);

export type Speed = { readonly speed: number; readonly label: string };

/** Speed in Mbps, with two decimals; `null` without a connection. */
export function measureSpeed(user: Database): Speed | null {
  if (!isDataWorking(user)) return null;
  const phone = phoneOf(user);
  const vpn = field(phone, "vpn_details");
  const isVpnSlow = isOn(phone, "vpn_connected") && vpn instanceof Map && vpn.get("server_performance") === "poor";
  let factor = isVpnSlow ? 0.1 : 1;
  if (isOn(phone, "data_saver_mode")) factor *= 0.2;
  const [least, most] = speeds.get(field(phone, "network_technology_connected")) ?? [0, 0];
  const signal = signalFactors.get(field(phone, "network_signal_strength")) ?? 0;
  const speed = roundFloat(((least + most) / 2) * signal * factor, 2);
  const labels: readonly (readonly [number, string])[] = [
    [1, "Very Poor"],
    [5, "Poor"],
    [25, "Fair"],
    [100, "Good"],
  ];
  return { speed, label: labels.find(([bound]) => speed < bound)?.[1] ?? "Excellent" };
}

const bars: ReadonlyMap<JsonValue, string> = new Map([
  ["poor", "📶¹ Poor"],
  ["fair", "📶² Fair"],
  ["good", "📶³ Good"],
  ["excellent", "📶⁴ Excellent"],
]);

export function statusBar(user: Database): string {
  const phone = phoneOf(user);
  const parts: string[] = [];
  if (isOn(phone, "airplane_mode")) parts.push("✈️ Airplane Mode");
  else {
    parts.push(bars.get(field(phone, "network_signal_strength")) ?? "📵 No Signal");
    const technology = enumText(field(phone, "network_technology_connected"));
    if (technology !== "none") parts.push(technology);
    if (isOn(phone, "data_enabled") && technology !== "none") {
      parts.push("📱 Data Enabled");
      if (isOn(phone, "data_saver_mode")) parts.push("🔽 Data Saver");
    } else parts.push("📵 Data Disabled");
  }
  if (isOn(phone, "wifi_enabled") && isOn(phone, "wifi_connected")) {
    const name = field(phone, "wifi_ssid");
    parts.push(isTruthy(name) ? `📡 Connected to ${pythonStr(name)}` : "📡 Enabled");
  }
  if (isOn(phone, "vpn_connected")) parts.push("🔒 VPN Connected");
  parts.push(`🔋 ${pythonStr(field(phone, "battery_level"))}%`);
  return parts.join(" | ");
}

/** Flips airplane mode, and returns its new state. */
export function toggleAirplaneMode(user: Database): boolean {
  const phone = editPhone(user);
  const wasOn = isOn(phone, "airplane_mode");
  phone.set("airplane_mode", !wasOn);
  if (wasOn) phone.set("network_connection_status", "searching");
  if (!wasOn || isOn(phone, "wifi_enabled")) dropWifi(phone);
  if (!wasOn) disconnectVpn(user);
  searchNetwork(user);
  return !wasOn;
}

export function dropWifi(phone: JsonObject): void {
  phone.set("wifi_connected", false).set("wifi_ssid", null).set("wifi_signal_strength", "none");
}

/** Flips a switch of the phone, and returns its new state. */
export function toggle(user: Database, key: string, { searches }: { readonly searches: boolean }): boolean {
  const phone = editPhone(user);
  const isNowOn = !isOn(phone, key);
  phone.set(key, isNowOn);
  if (searches) searchNetwork(user);
  return isNowOn;
}

/**
 * VPN profile of each phone, by database: one object, so breaking it affects every later connection
 * of the episode.
 */
const profiles = new WeakMap<Database, JsonObject>();

/** Connects the VPN; false if it was already connected. */
export function connectVpn(user: Database): boolean {
  const phone = editPhone(user);
  if (isOn(phone, "vpn_connected")) return false;
  let profile = profiles.get(user);
  if (profile === undefined) {
    profile = vpnDetails.make({ server_address: "192.168.1.1", protocol: "OpenVPN", server_performance: "excellent" });
    profiles.set(user, profile);
  }
  phone.set("vpn_connected", true).set("vpn_details", profile);
  return true;
}

/** Disconnects the VPN; false if it was not connected. */
export function disconnectVpn(user: Database): boolean {
  const phone = editPhone(user);
  if (!isOn(phone, "vpn_connected")) return false;
  phone.set("vpn_connected", false).set("vpn_details", null);
  return true;
}

/** The access point's settings, for changing them. */
export function editApn(user: Database, name: string): JsonObject {
  const settings = field(editPhone(user), "active_apn_settings");
  if (settings instanceof Map) return settings;
  throw attributeError(settings, name);
}

/** The app with a name, which may be of any type; `null` if it is not installed. */
export function findApp(user: Database, name: JsonValue): JsonObject | null {
  const key = asKey(name);
  const app = key === null ? undefined : objectField(phoneOf(user), "app_statuses").get(key);
  return app instanceof Map ? app : null;
}

export function editPermissions(user: Database, name: JsonValue): JsonObject {
  return objectField(objectField(objectField(editPhone(user), "app_statuses"), name as string), "permissions");
}
