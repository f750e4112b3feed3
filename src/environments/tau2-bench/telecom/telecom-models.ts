// The data models of the carrier and of the customer's phone, with fields in the order in which
// they are shown. Enumerations are stored as their values.

import type { JsonObject } from "../../../python-semantics/json/index.ts";
import type { DatabaseSpec } from "../database.ts";
import {
  boolean,
  date,
  dateTime,
  defaulted,
  defineModel as defineOpenModel,
  dictOf,
  type Fields,
  type FieldType,
  float,
  integer,
  listOf,
  type Model,
  nullable,
  oneOf,
  optional,
  text,
} from "../schema.ts";
import { JsonFloat } from "../../../python-semantics/json/index.ts";

/** Every model of this domain refuses unknown keys. */
const defineModel = (name: string, fields: Fields): Model => defineOpenModel(name, fields, { extra: "forbid" });
const zero = (): JsonFloat => new JsonFloat(0);
const off = defaulted(boolean, false);

const plan = defineModel("Plan", {
  plan_id: text,
  name: text,
  data_limit_gb: float,
  price_per_month: float,
  data_refueling_price_per_gb: float,
});

const device = defineModel("Device", {
  device_id: text,
  device_type: oneOf("phone", "router", "tablet", "watch", "other"),
  model: text,
  imei: optional(text),
  is_esim_capable: boolean,
  activated: off,
  activation_date: optional(dateTime),
  last_esim_transfer_date: optional(dateTime),
});

const line = defineModel("Line", {
  line_id: text,
  phone_number: text,
  status: defaulted(oneOf("Active", "Suspended", "Pending Activation", "Closed"), "Pending Activation"),
  plan_id: text,
  device_id: optional(text),
  data_used_gb: defaulted(float, zero),
  data_refueling_gb: defaulted(float, zero),
  roaming_enabled: off,
  contract_end_date: optional(date),
  last_plan_change_date: optional(date),
  last_sim_replacement_date: optional(date),
  suspension_start_date: optional(date),
});

export const lineItem = defineModel("LineItem", { description: text, amount: float, date, item_type: text });

export const bill = defineModel("Bill", {
  bill_id: text,
  customer_id: text,
  period_start: date,
  period_end: date,
  issue_date: date,
  total_due: float,
  due_date: date,
  line_items: defaulted(listOf(lineItem.read), () => []),
  status: defaulted(oneOf("Draft", "Issued", "Awaiting Payment", "Paid", "Overdue", "Disputed"), "Draft"),
});

const customer = defineModel("Customer", {
  customer_id: text,
  full_name: text,
  date_of_birth: text,
  email: text,
  phone_number: text,
  address: defineModel("Address", { street: text, city: text, state: text, zip_code: text }).read,
  account_status: defaulted(oneOf("Active", "Suspended", "Pending Verification", "Closed"), "Pending Verification"),
  payment_methods: defaulted(
    listOf(
      defineModel("PaymentMethod", {
        method_type: oneOf("Credit Card", "Debit Card", "PayPal"),
        account_number_last_4: text,
        expiration_date: text,
      }).read,
    ),
    () => [],
  ),
  line_ids: defaulted(listOf(text), () => []),
  bill_ids: defaulted(listOf(text), () => []),
  created_at: defaulted(dateTime, "2025-01-01 00:00:00"),
  last_extension_date: optional(date),
  goodwill_credit_used_this_year: defaulted(float, zero),
});

export const telecomDatabase: DatabaseSpec = {
  name: "TelecomDB",
  tables: {
    plans: { kind: "list", model: plan, key: "plan_id" },
    customers: { kind: "list", model: customer, key: "customer_id" },
    lines: { kind: "list", model: line, key: "line_id" },
    bills: { kind: "list", model: bill, key: "bill_id" },
    devices: { kind: "list", model: device, key: "device_id" },
  },
};

const signal = oneOf("none", "poor", "fair", "good", "excellent");
const technology = oneOf("none", "2G", "3G", "4G", "5G");

export const networkModes = ["4g_5g_preferred", "4g_only", "3g_only", "2g_only"] as const;

export const apnSettings = defineModel("APNSettings", {
  apn_name: defaulted(oneOf("internet", "broken"), "internet"),
  reset_at_reboot: off,
  mms_apn: defaulted(nullable(text), "mms"),
  mmsc_url: defaulted(nullable(text), "http://mms.carrier.com/mms/wapenc"),
  mms_proxy: optional(text),
  mms_port: optional(integer),
});

export const vpnDetails = defineModel("VpnDetails", {
  server_address: optional(text),
  protocol: optional(text),
  server_performance: defaulted(oneOf("unknown", "poor", "fair", "good", "excellent"), "unknown"),
});

const permissions = defineModel("AppPermissions", { sms: off, storage: off, phone: off, network: off });

const app = defineModel("AppStatus", {
  app_name: text,
  permissions: defaulted(permissions.read, () => permissions.make({})),
});

const installedApps = (): JsonObject =>
  new Map([
    [
      "messaging",
      app.make({
        app_name: "messaging",
        permissions: new Map(["sms", "storage", "phone"].map((name) => [name, true])),
      }),
    ],
    [
      "browser",
      app.make({ app_name: "browser", permissions: new Map(["network", "storage"].map((name) => [name, true])) }),
    ],
  ]);

const phone = defineModel("MockPhoneAttributes", {
  sim_card_status: defaulted(oneOf("active", "missing", "locked_pin", "locked_puk"), "active"),
  sim_card_missing: off,
  airplane_mode: off,
  network_signal_strength: defaulted(signal, "good"),
  network_technology_connected: defaulted(technology, "5G"),
  network_connection_status: defaulted(oneOf("connected", "searching", "no_service", "emergency_only"), "connected"),
  battery_level: defaulted(integer, 80),
  data_enabled: defaulted(boolean, true),
  roaming_enabled: off,
  network_mode_preference: defaulted(oneOf(...networkModes), "4g_5g_preferred"),
  active_apn_settings: defaulted(apnSettings.read, () => apnSettings.make({})),
  wifi_enabled: off,
  wifi_connected: off,
  wifi_ssid: optional(text),
  wifi_signal_strength: defaulted(signal, "none"),
  wifi_calling_enabled: off,
  wifi_calling_mms_over_wifi: off,
  data_saver_mode: off,
  vpn_enabled_setting: off,
  vpn_connected: off,
  vpn_details: optional(vpnDetails.read),
  app_statuses: defaulted(dictOf(app.read), installedApps),
});

export const paymentRequest = defineModel("PaymentRequest", { bill_id: text, amount_due: float, paid: off });

/** A signal strength per technology. */
const signals: FieldType = (value, place) => {
  const record = dictOf(signal)(value, place);
  if (record instanceof Map) for (const key of record.keys()) technology(key, place);
  return record;
};

const surroundings = defineModel("UserSurroundings", {
  name: optional(text),
  phone_number: optional(text),
  is_abroad: off,
  roaming_allowed: off,
  signal_strength: defaulted(
    signals,
    () =>
      new Map([
        ["2G", "poor"],
        ["3G", "fair"],
        ["4G", "good"],
        ["5G", "excellent"],
      ]),
  ),
  mobile_data_usage_exceeded: off,
  line_active: defaulted(boolean, true),
  payment_request: optional(paymentRequest.read),
});

export const phoneDatabase: DatabaseSpec = {
  name: "TelecomUserDB",
  tables: { device: { kind: "record", model: phone }, surroundings: { kind: "record", model: surroundings } },
};
